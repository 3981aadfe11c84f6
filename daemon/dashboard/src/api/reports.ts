// The reports of a run, from the first one on and live. In a long run the older reports arrive as levels, in which each
// point has the least and the greatest value of many reports. Very many reports are thinned out as they arrive, the
// older ones first, because a screen has fewer columns.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Point, pointOf, pointsOf } from "../data/series.ts";
import { Continuation } from "../data/continued.ts";
import { call, list } from "./client.ts";
import { severally } from "./several.ts";
import { follow } from "./stream.ts";
import type { Attempt, Report, RunHistory } from "./types.ts";

export const points_most = 60_000;

// Removes every second report of the older half, except those with a checkpoint.
export function halved(points: Point[]): Point[] {
  const middle = Math.floor(points.length / 2);
  return points.filter((point, at) => at >= middle || at % 2 === 0 || point.checkpoint !== null);
}

const level_points = 2_000;

interface Older {
  points: Point[];
  last: number;  // the position after which the stream starts
}

// Returns the older reports of rank 0 from levels. Returns null if the run has few reports, or if the head has no
// levels; then all reports are streamed.
async function olderOf(run: string, signal: AbortSignal): Promise<Older | null> {
  const path = `/v1/runs/${encodeURIComponent(run)}/metrics/history`;
  try {
    const { keys = [], last } = await call<RunHistory>(path, { signal });
    if (!(last > points_most)) return null;
    const answers = await severally(keys, (key) => call<RunHistory>(`${path}?key=${encodeURIComponent(key)}&to=${last}&points=${level_points}`, { signal }));
    return { points: pointsOf(new Map(keys.map((key, at) => [key, answers[at]!]))), last };
  } catch {
    return null;
  }
}

export interface Reports {
  points: Point[];  // points of the rank, or of the first of several ranks
  by_rank: Map<string, Point[]>;  // set if several ranks were requested
  thinned: boolean;
  complete: boolean;  // the run has ended, and all its reports have arrived
}

export function useReports(run: string, rank = "0"): Reports {
  const [reports, set] = useState<Reports>({ points: [], by_rank: new Map(), thinned: false, complete: false });
  const asked = useRef(false);
  useEffect(() => {
    let points: Point[] = [];
    const by_rank = new Map<string, Point[]>();
    let thinned = false;
    let complete = false;
    let gone = false;
    const several = !/^\d+$/.test(rank);
    const continuation = new Continuation();
    const asking = new AbortController();
    let waiting: (() => void)[] = [];  // tasks that wait for the origin of a new attempt, in order
    // Calls `task` once it is known from which report the attempt continues.
    const knowing = (attempt: number, task: () => void) => {
      if (waiting.length === 0 && continuation.knows(attempt)) return task();
      waiting.push(() => knowing(attempt, task));
      if (waiting.length > 1) return;
      const learnOrigin = async () => {
        const attempts = await list<Attempt>(`/v1/runs/${encodeURIComponent(run)}/attempts`, asking.signal).catch((): Attempt[] => []);
        if (gone) return;
        if (!attempts.some((listed_attempt) => listed_attempt.number === attempt)) return void setTimeout(() => void learnOrigin(), 2_000);
        continuation.learn(attempt, attempts, points);
        const tasks = waiting;
        waiting = [];
        for (const task of tasks) task();
      };
      void learnOrigin();
    };
    const add = (into: Point[], point: Point): Point[] => {
      into.push(point);
      if (into.length <= points_most) return into;
      thinned = true;
      return halved(into);
    };
    const draw = () => {
      if (asked.current) return;
      asked.current = true;
      setTimeout(() => {
        asked.current = false;
        if (!gone) set({ points: [...points], by_rank: new Map(by_rank), thinned, complete });
      }, 100);
    };
    set({ points: [], by_rank: new Map(), thinned: false, complete: false });
    const read = (after: string) => follow({
      after,
      path: `/v1/runs/${encodeURIComponent(run)}/metrics?rank=${encodeURIComponent(rank)}`,
      resumes: true,
      onData: (data) => {
        const report = JSON.parse(data) as Report;
        knowing(report.attempt, () => {
          const point = (of?: string) => continuation.shifted(pointOf(report, of));
          if (several) for (const one_rank of Object.keys(report.metrics_by_rank ?? {})) by_rank.set(one_rank, add(by_rank.get(one_rank) ?? [], point(one_rank)));
          points = add(points, point(several ? "0" : undefined));
          draw();
        });
      },
      onEnd: () => {
        complete = true;
        draw();
      },
    });
    let close = () => {};
    void (rank === "0" ? olderOf(run, asking.signal) : Promise.resolve(null)).then((older) => {
      if (gone) return;
      if (older) {
        thinned = true;
        for (const older_point of older.points)
          knowing(older_point.attempt, () => {
            points.push(continuation.shifted(older_point));
            draw();
          });
      }
      close = read(older ? String(older.last) : "");
    });
    return () => {
      gone = true;
      asked.current = false;
      asking.abort();
      close();
    };
  }, [run, rank]);
  return reports;
}

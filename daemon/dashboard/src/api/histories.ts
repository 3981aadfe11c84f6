// The metrics of several runs for comparison, from the levels that the head keeps: no stream per run, so that any number
// of runs can be compared.
import { useRef } from "preact/hooks";
import { Continuation } from "../data/continued.ts";
import { type Point, pointsOf } from "../data/series.ts";
import { hasEnded } from "../text/states.ts";
import { call, list } from "./client.ts";
import { type Loaded, useLoaded } from "./hooks.ts";
import { severally } from "./several.ts";
import type { Attempt, Run, RunHistory } from "./types.ts";

const points_wanted = 600;
const keys_most = 24;
const again_ms = 10_000;

async function read(run: Run, signal: AbortSignal): Promise<Point[]> {
  const path = `/v1/runs/${encodeURIComponent(run.run_id)}`;
  const { keys = [], last } = await call<RunHistory>(`${path}/metrics/history`, { signal });
  if (last === 0) return [];
  const shown = keys.slice(0, keys_most);
  const answers: RunHistory[] = [];
  for (const key of shown) answers.push(await call<RunHistory>(`${path}/metrics/history?key=${encodeURIComponent(key)}&to=${last}&points=${points_wanted}`, { signal }));
  const points = pointsOf(new Map(shown.map((key, at) => [key, answers[at]!])));
  if (run.attempts < 2) return points;
  const attempts = await list<Attempt>(`${path}/attempts`, signal);
  const continuation = new Continuation();
  const out: Point[] = [];
  for (const point of points) {
    continuation.learn(point.attempt, attempts, out);
    out.push(continuation.shifted(point));
  }
  return out;
}

// Reads a run that has ended once, and a live one again and again. Key: the id of the run.
export function useHistories(runs: readonly Run[]): Loaded<ReadonlyMap<string, Point[]>> {
  const over = useRef(new Map<string, Point[]>());
  return useLoaded(async (signal) => {
    const histories = await severally(runs, async (run) => {
      const before = over.current.get(run.run_id);
      if (before) return before;
      const points = await read(run, signal);
      if (hasEnded(run.state)) over.current.set(run.run_id, points);
      return points;
    });
    return new Map(runs.map((run, at) => [run.run_id, histories[at]!]));
  }, [runs.map((run) => `${run.run_id} ${hasEnded(run.state)}`).join()], again_ms);
}

// The present use of each rank of a run, and its own time for a report in the past.
import { useEffect, useState } from "preact/hooks";
import { type Intervals, intervalsOf } from "../data/intervals.ts";
import { call, type Problem } from "./client.ts";
import { type Loaded, useLoaded } from "./hooks.ts";
import type { Page, RankFacts, RanksHistory } from "./types.ts";

// The use of each rank between two reads.
interface Use {
  at: number;
  before: Map<number, RankFacts>;
  cpus: Map<number, number>;  // number of processors in use
  waits: Map<number, number>;  // fraction of the time in which the rank waited for data
}

const unused: Use = { at: 0, before: new Map(), cpus: new Map(), waits: new Map() };

function nextUse(last: Use, now: number, facts: readonly RankFacts[]): Use {
  const passed = (now - last.at) / 1000;
  const cpus = new Map(last.cpus);
  const waits = new Map(last.waits);
  for (const usage of facts) {
    const before = last.before.get(usage.rank);
    if (!before || before.attempt !== usage.attempt || passed > 60) continue;
    if (usage.cpu_seconds !== null && before.cpu_seconds !== null) cpus.set(usage.rank, Math.max(0, (usage.cpu_seconds - before.cpu_seconds) / passed));
    if (usage.data_wait_seconds !== null && before.data_wait_seconds !== null) waits.set(usage.rank, Math.max(0, Math.min(1, (usage.data_wait_seconds - before.data_wait_seconds) / passed)));
  }
  return { at: now, before: new Map(facts.map((usage) => [usage.rank, usage])), cpus, waits };
}

export interface LiveRanks {
  facts: RankFacts[] | undefined;
  problem: Problem | null;
  use: Pick<Use, "cpus" | "waits">;
}

const again_ms = 2_000;

export function useRankFacts(run: string): LiveRanks {
  const read = useLoaded<Page<RankFacts>>((signal) => call<Page<RankFacts>>(`/v1/runs/${encodeURIComponent(run)}/ranks`, { signal }), [run], again_ms);
  const [use, setUse] = useState(unused);
  const facts = read.value?.items;
  useEffect(() => {
    if (!facts || facts.length === 0) return;
    const now = Date.now();
    setUse((last) => nextUse(last, now, facts));
  }, [facts]);
  return { facts, problem: read.problem, use };
}

const columns_wanted = 240;
const history_again_ms = 10_000;

// Returns the own times of the last `stretch_ms` that the head keeps of this run.
export function useOwnTimes(run: string, stretch_ms: number): Loaded<Intervals> {
  return useLoaded(async (signal) => {
    const read = (key: string, from: number, points: number) =>
      call<RanksHistory>(`/v1/runs/${encodeURIComponent(run)}/ranks/history?key=${key}&from=${from}&points=${points}`, { signal });
    const { last } = await read("report_interval_seconds", 0, 1);
    const from = Math.max(0, last * 1000 - stretch_ms);
    const [interval, own] = await Promise.all([read("report_interval_seconds", from, columns_wanted), read("own_time_ratio", from, columns_wanted)]);
    return intervalsOf(interval, own);
  }, [run, stretch_ms], history_again_ms);
}

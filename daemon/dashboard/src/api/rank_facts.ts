// The use and the report times of each rank of a run, read repeatedly. Earlier samples are kept, so that the heat map
// is complete when its tab is opened again.
import { useEffect, useState } from "preact/hooks";
import { type Intervals, noIntervals, withSample } from "../data/intervals.ts";
import { call, type Problem } from "./client.ts";
import { useLoaded } from "./hooks.ts";
import type { Page, RankFacts } from "./types.ts";

const runs_most = 4;
const kept = new Map<string, Intervals>();  // key: the run; the most recently used run is the last

function keep(run: string, seen: Intervals): Intervals {
  kept.delete(run);
  kept.set(run, seen);
  for (const oldest of kept.keys()) if (kept.size > runs_most) kept.delete(oldest);
  return seen;
}

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
  for (const one of facts) {
    const before = last.before.get(one.rank);
    if (!before || before.attempt !== one.attempt || passed > 60) continue;
    if (one.cpu_seconds !== null && before.cpu_seconds !== null) cpus.set(one.rank, Math.max(0, (one.cpu_seconds - before.cpu_seconds) / passed));
    if (one.data_wait_seconds !== null && before.data_wait_seconds !== null) waits.set(one.rank, Math.max(0, Math.min(1, (one.data_wait_seconds - before.data_wait_seconds) / passed)));
  }
  return { at: now, before: new Map(facts.map((one) => [one.rank, one])), cpus, waits };
}

export interface LiveRanks {
  facts: RankFacts[] | undefined;
  problem: Problem | null;
  seen: Intervals;
  use: Pick<Use, "cpus" | "waits">;
}

// `every_ms` 0: no request is made.
export function useRankFacts(run: string, every_ms: number): LiveRanks {
  const read = useLoaded<Page<RankFacts> | null>(
    (signal) => (every_ms === 0 ? Promise.resolve(null) : call<Page<RankFacts>>(`/v1/runs/${encodeURIComponent(run)}/ranks`, { signal })),
    [run], every_ms,
  );
  const [seen, setSeen] = useState(() => kept.get(run) ?? noIntervals());
  const [use, setUse] = useState(unused);
  const facts = read.value?.items;
  useEffect(() => {
    if (!facts || facts.length === 0) return;
    const now = Date.now();
    setSeen(keep(run, withSample(kept.get(run) ?? noIntervals(), now, facts)));
    setUse((last) => nextUse(last, now, facts));
  }, [facts]);
  return { facts, problem: read.problem, seen, use };
}

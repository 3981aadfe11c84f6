// The report intervals of each rank over time, for the heat map. The head sends the last interval of each rank; this
// module keeps the earlier ones. Pure.
import type { RankFacts } from "../api/types.ts";

export interface Intervals {
  times: number[];  // in ms
  columns: Float32Array[];  // one per time; index: the rank; value: its interval in ms; 0: no report
  slowness: Float32Array[];  // one per time; index: the rank; value: its interval divided by the median; 0: unknown
}

export const columns_most = 300;

export function noIntervals(): Intervals {
  return { times: [], columns: [], slowness: [] };
}

export function withSample(before: Intervals, now: number, ranks: readonly RankFacts[]): Intervals {
  const column = new Float32Array(ranks.reduce((most, one) => Math.max(most, one.rank + 1), 0));
  for (const one of ranks) if (one.interval_ms && one.interval_ms > 0) column[one.rank] = one.interval_ms;
  const added = <T>(to: readonly T[], one: T): T[] => [...to, one].slice(-columns_most);
  return { times: added(before.times, now), columns: added(before.columns, column), slowness: added(before.slowness, slownessOf(column)) };
}

export function median(values: ArrayLike<number>): number {
  const sorted = Float32Array.from(values).filter((one) => one > 0).sort();
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

// Returns each interval divided by the median of its column: 2 means twice the time of the others.
export function slownessOf(column: Float32Array): Float32Array {
  const middle = median(column);
  return column.map((one) => (middle > 0 ? one / middle : 0));
}

// Returns the rank with the longest interval at a time; null if no rank has reported.
export function slowestAt(seen: Intervals, at: number): { rank: number; ms: number; slowness: number } | null {
  const column = seen.columns[at];
  if (!column) return null;
  let rank = -1;
  column.forEach((ms, of) => {
    if (ms > 0 && (rank < 0 || ms > column[rank]!)) rank = of;
  });
  return rank < 0 ? null : { rank, ms: column[rank]!, slowness: seen.slowness[at]![rank]! };
}

// Returns the rank that was slower than the others by a quarter in most columns; null if there is none.
export function straggler(seen: Intervals): { rank: number; slower: number } | null {
  const sums = new Map<number, { slow: number; count: number; sum: number }>();
  for (const column of seen.slowness) {
    if (column.filter((value) => value > 0).length < 2) continue;
    column.forEach((value, rank) => {
      if (value === 0) return;
      const one = sums.get(rank) ?? { slow: 0, count: 0, sum: 0 };
      sums.set(rank, { slow: one.slow + (value >= 1.25 ? 1 : 0), count: one.count + 1, sum: one.sum + value });
    });
  }
  let slowest: { rank: number; slower: number } | null = null;
  for (const [rank, one] of sums) {
    if (one.count < 5 || one.slow < one.count / 2) continue;
    const slower = one.sum / one.count;
    if (!slowest || slower > slowest.slower) slowest = { rank, slower };
  }
  return slowest;
}

// Report intervals of each rank over time, for the heat map. The head tells each rank's last one; this keeps what was
// seen. Pure.
import type { RankFacts } from "../api/types.ts";

export interface Intervals {
  times: number[]; // ms
  columns: Map<number, number | null>[]; // of each time: rank -> interval in ms
}

export const columns_most = 300;

export function noIntervals(): Intervals {
  return { times: [], columns: [] };
}

export function withSample(before: Intervals, now: number, ranks: readonly RankFacts[]): Intervals {
  const column = new Map(ranks.map((one) => [one.rank, one.interval_ms && one.interval_ms > 0 ? one.interval_ms : null]));
  const times = [...before.times, now].slice(-columns_most);
  const columns = [...before.columns, column].slice(-columns_most);
  return { times, columns };
}

export function median(values: readonly number[]): number {
  if (values.length === 0) return 0;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)]!;
}

// Each cell against the median of its column: 1 is as slow as the others, 2 takes twice their time.
export function slowness(column: ReadonlyMap<number, number | null>): Map<number, number> {
  const known = [...column].filter((cell): cell is [number, number] => cell[1] !== null);
  const middle = median(known.map(([, value]) => value));
  return new Map(middle > 0 ? known.map(([rank, value]) => [rank, value / middle]) : []);
}

// The rank that is slower than the others by a quarter in most of what was seen; null: none stands out.
export function straggler(seen: Intervals): { rank: number; slower: number } | null {
  const sums = new Map<number, { slow: number; count: number; sum: number }>();
  for (const column of seen.columns) {
    const cells = slowness(column);
    if (cells.size < 2) continue;
    for (const [rank, value] of cells) {
      const one = sums.get(rank) ?? { slow: 0, count: 0, sum: 0 };
      sums.set(rank, { slow: one.slow + (value >= 1.25 ? 1 : 0), count: one.count + 1, sum: one.sum + value });
    }
  }
  let found: { rank: number; slower: number } | null = null;
  for (const [rank, one] of sums) {
    if (one.count < 5 || one.slow < one.count / 2) continue;
    const slower = one.sum / one.count;
    if (!found || slower > found.slower) found = { rank, slower };
  }
  return found;
}

// The own time of each rank for a report, over time, for the heat map: the time between two reports without the part in
// which the rank waited for others. Pure.
import type { RanksHistory } from "../api/types.ts";

export interface Intervals {
  times: number[];  // in ms
  columns: Float32Array[];  // one per time; index: the rank; value: its own time in ms; 0: no report
  slowness: Float32Array[];  // one per time; index: the rank; value: its own time divided by the median; 0: unknown
}

// Returns the mean of each point, by time and rank.
function byTime(history: RanksHistory): Map<number, Map<number, number>> {
  const out = new Map<number, Map<number, number>>();
  for (const { rank, points } of history.ranks)
    points.time_ms.forEach((time, at) => {
      const column = out.get(time) ?? new Map<number, number>();
      column.set(rank, (points.min[at]! + points.max[at]!) / 2);
      out.set(time, column);
    });
  return out;
}

// `interval`: seconds between two reports. `own`: the share of the time in which a rank did not wait for others. All
// ranks report equally often, so the longest interval is the time for a report. A rank whose waits are unknown has its
// interval.
export function intervalsOf(interval: RanksHistory, own: RanksHistory): Intervals {
  const shares = byTime(own);
  const known = [...byTime(interval)].sort(([a], [b]) => a - b);
  const columns = known.map(([time, intervals]) => {
    const column = new Float32Array(Math.max(...intervals.keys()) + 1);
    const whole = Math.max(...intervals.values());
    const share = shares.get(time);
    for (const [rank, seconds] of intervals) {
      const part = share?.get(rank);
      column[rank] = Math.max(1, 1_000 * (part === undefined ? seconds : part * whole));
    }
    return column;
  });
  return { times: known.map(([time]) => time), columns, slowness: columns.map(slownessOf) };
}

export function median(values: ArrayLike<number>): number {
  const sorted = Float32Array.from(values).filter((value) => value > 0).sort();
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

// Returns each time divided by the median of its column: 2 means twice the time of the others.
export function slownessOf(column: Float32Array): Float32Array {
  const middle = median(column);
  return column.map((value) => (middle > 0 ? value / middle : 0));
}

// Returns the rank with the longest own time at a moment; null if no rank has reported.
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
      const sum_before = sums.get(rank) ?? { slow: 0, count: 0, sum: 0 };
      sums.set(rank, { slow: sum_before.slow + (value >= 1.25 ? 1 : 0), count: sum_before.count + 1, sum: sum_before.sum + value });
    });
  }
  let slowest: { rank: number; slower: number } | null = null;
  for (const [rank, totals] of sums) {
    if (totals.count < 5 || totals.slow < totals.count / 2) continue;
    const slower = totals.sum / totals.count;
    if (!slowest || slower > slowest.slower) slowest = { rank, slower };
  }
  return slowest;
}

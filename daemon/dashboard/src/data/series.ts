// Converts reports to series of numbers for charts. Pure.
import type { Attempt, Report, RunHistory } from "../api/types.ts";
import { moment } from "../text/time.ts";

export type Axis = "step" | "time";

export interface Point {
  attempt: number;
  index: number;  // number of the report in the run
  time: number;  // in ms
  values: Record<string, number>;
  checkpoint: string | null;
}

export interface Series {
  x: number[];
  y: (number | null)[];
}

export interface Span {
  attempt: number;
  from: number;
  to: number;
}

function numbersOf(metrics: Record<string, unknown> | undefined): Record<string, number> {
  const out: Record<string, number> = Object.create(null) as Record<string, number>;
  for (const [key, value] of Object.entries(metrics ?? {})) {
    if (typeof value === "number" && Number.isFinite(value)) out[key] = value;
    else if (typeof value === "boolean") out[key] = value ? 1 : 0;
  }
  return out;
}

// `rank`: the rank to use if a report has several.
export function pointOf(report: Report, rank?: string): Point {
  const metrics = rank === undefined ? report.metrics : report.metrics_by_rank?.[rank];
  return {
    attempt: report.attempt,
    index: report.index,
    time: moment(report.time) ?? 0,
    values: numbersOf(metrics),
    checkpoint: report.checkpoint ?? null,
  };
}

// Returns two points for each stretch of a long run's reports, with the least and the greatest value of each key.
export function pointsOf(histories: ReadonlyMap<string, RunHistory>): Point[] {
  const stretches = new Map<number, [Point, Point]>();
  for (const [key, history] of histories) {
    const points = history.points;
    if (!points) continue;
    points.position.forEach((position, at) => {
      let both = stretches.get(position);
      if (!both) {
        const first: Point = { attempt: points.attempt[at]!, index: points.step[at]!, time: points.time_ms[at]!, values: {}, checkpoint: null };
        both = [first, { ...first, index: first.index + (history.reports_per_point ?? 1) / 2, values: {} }];
        stretches.set(position, both);
      }
      both[0].values[key] = points.min[at]!;
      both[1].values[key] = points.max[at]!;
    });
  }
  const sorted = [...stretches].sort(([a], [b]) => a - b);
  if ([...histories.values()].every((history) => history.reports_per_point === 1)) return sorted.map(([, [report]]) => report);
  const out: Point[] = [];
  for (const [, both] of sorted) {
    const [first, second] = both;
    const next = out.at(-1);
    if (next && next.attempt === first.attempt && next.index >= first.index) next.index = first.index - 0.5; // a short stretch
    out.push(first, second);
  }
  // The second point lies half-way to the next stretch in time too.
  for (let at = 1; at + 1 < out.length; at += 2) out[at]!.time = (out[at - 1]!.time + out[at + 1]!.time) / 2;
  return out;
}

export function keysOf(points: readonly Point[]): string[] {
  const keys = new Set<string>();
  for (const point of points) for (const key of Object.keys(point.values)) keys.add(key);
  return [...keys].sort();
}

// On a step axis, a report of a later attempt replaces the reports that it repeats: an attempt that starts from a
// checkpoint trains some steps again.
export function currentPoints(points: readonly Point[]): Point[] {
  const kept: Point[] = [];
  let attempt = -1;
  for (const point of points) {
    if (point.attempt !== attempt) {
      attempt = point.attempt;
      while (kept.length > 0 && kept.at(-1)!.index >= point.index) kept.pop();
    }
    kept.push(point);
  }
  return kept;
}

export function orderedBy(points: readonly Point[], axis: Axis): Point[] {
  return axis === "step" ? currentPoints(points) : [...points];
}

export function xOf(point: Point, axis: Axis): number {
  return axis === "step" ? point.index : point.time / 1000;
}

export function seriesOf(points: readonly Point[], key: string, axis: Axis): Series {
  const out: Series = { x: [], y: [] };
  for (const point of orderedBy(points, axis)) {
    const value = point.values[key];
    if (value === undefined) continue;
    out.x.push(xOf(point, axis));
    out.y.push(value);
  }
  return out;
}

// Returns at most about `most` points: of each stretch the least and the greatest, in their order, so that no peak is
// lost.
export function thinned(series: Series, most: number): Series {
  const count = series.x.length;
  if (count <= most) return series;
  const stretch = Math.ceil(count / Math.max(1, Math.floor(most / 2)));
  const out: Series = { x: [], y: [] };
  for (let from = 0; from < count; from += stretch) {
    let low = from;
    let high = from;
    for (let at = from; at < Math.min(count, from + stretch); at += 1) {
      if ((series.y[at] ?? Infinity) < (series.y[low] ?? Infinity)) low = at;
      if ((series.y[at] ?? -Infinity) > (series.y[high] ?? -Infinity)) high = at;
    }
    for (const at of low === high ? [low] : [Math.min(low, high), Math.max(low, high)]) {
      out.x.push(series.x[at]!);
      out.y.push(series.y[at]!);
    }
  }
  return out;
}

// Computes an exponential mean, corrected at its begin. `weight` is the weight of the past: 0 to below 1.
export function smoothed(series: Series, weight: number): Series {
  if (weight <= 0) return series;
  let mean = 0;
  let count = 0;
  const y = series.y.map((value) => {
    if (value === null) return null;
    count += 1;
    mean = weight * mean + (1 - weight) * value;
    return mean / (1 - weight ** count);
  });
  return { x: series.x, y };
}

// A gap extends to the series' own next value, past values of other series.
function widenGaps(y: (number | null | undefined)[]): void {
  for (let at = 0; at < y.length; at += 1) {
    if (y[at] !== null) continue;
    for (let before = at - 1; before >= 0 && y[before] === undefined; before -= 1) y[before] = null;
    for (; at + 1 < y.length && y[at + 1] === undefined; at += 1) y[at + 1] = null;
  }
}

// Returns several series over one x, in the form that uPlot takes.
export function joined(all: readonly Series[]): { x: number[]; y: (number | null | undefined)[][] } {
  const places = new Map<number, number>();
  const x = [...new Set(all.flatMap((series) => series.x))].sort((a, b) => a - b);
  x.forEach((value, at) => places.set(value, at));
  const y = all.map((series) => {
    const out = new Array<number | null | undefined>(x.length).fill(undefined);
    series.x.forEach((value, at) => {
      out[places.get(value)!] = series.y[at];
    });
    widenGaps(out);
    return out;
  });
  return { x, y };
}

// Returns the position of each attempt on the axis.
export function spansOf(points: readonly Point[], attempts: readonly Attempt[], axis: Axis, now: number): Span[] {
  if (axis === "time")
    return attempts.flatMap((attempt) => {
      const from = moment(attempt.started) ?? moment(attempt.placed);
      return from === null ? [] : [{ attempt: attempt.number, from: from / 1000, to: (moment(attempt.ended) ?? now) / 1000 }];
    });
  const spans: Span[] = [];
  for (const point of currentPoints(points)) {
    const last = spans.at(-1);
    if (last?.attempt === point.attempt) last.to = point.index;
    else spans.push({ attempt: point.attempt, from: last?.to ?? point.index, to: point.index });
  }
  return spans;
}

export function checkpointsOf(points: readonly Point[], axis: Axis): { x: number; name: string }[] {
  return orderedBy(points, axis)
    .filter((point) => point.checkpoint !== null)
    .map((point) => ({ x: xOf(point, axis), name: point.checkpoint! }));
}

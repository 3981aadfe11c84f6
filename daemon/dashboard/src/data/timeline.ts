// Computes the chart of runs on nodes: a row for each GPU, and a bar for each attempt that held it. Pure.
import type { TimelineAttempt } from "../api/types.ts";

// One GPU of a node, or the whole node for runs without a GPU.
export interface PlaceRow {
  node: string;
  gpu: number | null;
  first: boolean;  // true: the first row of its node
}

export interface Bar {
  row: number;
  subrow: number;  // bars of one row that overlap lie in different subrows
  from: number;  // in ms
  to: number;
  of: TimelineAttempt;
}

export interface Timeline {
  rows: PlaceRow[];
  subrows: number[];  // number of subrows by row, at least 1
  bars: Bar[];  // by row, then by begin
}

const byNumber = (a: string, b: string) => a.localeCompare(b, "en", { numeric: true });

// `gpus`: the number of GPUs by node. Returns a row for each GPU that the node has or had.
function rowsOf(gpus: ReadonlyMap<string, number>, items: readonly TimelineAttempt[]): PlaceRow[] {
  const places = new Map<string, Set<number | null>>();
  for (const [node, count] of gpus) places.set(node, new Set(count === 0 ? [null] : Array.from({ length: count }, (_, index) => index)));
  for (const { nodes } of items)
    for (const { node, gpus: held } of nodes) {
      const known = places.get(node) ?? new Set<number | null>();
      for (const gpu of held.length === 0 ? [null] : held) known.add(gpu);
      places.set(node, known);
    }
  return [...places].sort(([a], [b]) => byNumber(a, b)).flatMap(([node, of]) =>
    [...of].sort((a, b) => (a ?? Infinity) - (b ?? Infinity)).map((gpu, at) => ({ node, gpu, first: at === 0 })));
}

const keyOf = (node: string, gpu: number | null) => `${gpu ?? ""} ${node}`;

// Places bars of one row into subrows: each into the first one that is free at its begin.
function inSubrows(bars: Bar[]): number {
  const ends: number[] = [];
  for (const bar of bars.sort((a, b) => a.from - b.from)) {
    const free = ends.findIndex((end) => end <= bar.from);
    bar.subrow = free < 0 ? ends.length : free;
    ends[bar.subrow] = bar.to;
  }
  return Math.max(1, ends.length);
}

// Cuts bars at the span [from, to]. An attempt without an end lasts until `now`.
export function timelineOf(gpus: ReadonlyMap<string, number>, items: readonly TimelineAttempt[], span: { from: number; to: number }, now: number): Timeline {
  const rows = rowsOf(gpus, items);
  const at = new Map(rows.map((row, place) => [keyOf(row.node, row.gpu), place]));
  const bars: Bar[][] = rows.map(() => []);
  for (const of of items) {
    const from = Math.max(span.from, Date.parse(of.placed));
    const to = Math.min(span.to, of.ended === null ? now : Date.parse(of.ended));
    if (!(to > from)) continue;
    for (const { node, gpus: held } of of.nodes)
      for (const gpu of held.length === 0 ? [null] : held) {
        const row = at.get(keyOf(node, gpu))!;
        bars[row]!.push({ row, subrow: 0, from, to, of });
      }
  }
  const subrows = bars.map(inSubrows);
  return { rows, subrows, bars: bars.flat() };
}

export interface Span {
  from: number;  // in ms
  to: number;
}

const least_ms = 60_000;
const most_ms = 90 * 24 * 3_600_000;

// Zooms by `factor` around the middle (below 1: in), or moves by `shift` spans. The end is never after `now`.
export function moved(span: Span, factor: number, shift: number, now: number): Span {
  const length = Math.min(most_ms, Math.max(least_ms, (span.to - span.from) * factor));
  const middle = (span.from + span.to) / 2 + shift * (span.to - span.from);
  const to = Math.min(now, Math.round(middle + length / 2));
  return { from: Math.round(to - length), to };
}

// Returns times at whole minutes, hours or days of the reader's clock, at most `most` of them.
export function ticksOf(span: Span, most: number): number[] {
  const minute = 60_000;
  const steps = [1, 5, 15, 30, 60, 180, 360, 720, 1440, 2880, 10_080, 20_160, 43_200].map((minutes) => minutes * minute);
  const step = steps.find((step_ms) => (span.to - span.from) / step_ms <= most) ?? steps.at(-1)!;
  const zone = new Date(span.from).getTimezoneOffset() * minute;
  const out: number[] = [];
  for (let tick = Math.ceil((span.from - zone) / step) * step + zone; tick <= span.to; tick += step) out.push(tick);
  return out;
}

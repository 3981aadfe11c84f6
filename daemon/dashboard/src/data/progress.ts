// Computes how far a run is on the way to the end that its spec defines, and how long the rest takes at its present
// pace. Pure.
import type { Run } from "../api/types.ts";
import { moment } from "../text/time.ts";
import type { Point } from "./series.ts";

export interface Progress {
  ratio: number; // 0 to 1
  key: string;
  value: number;
  target: number;
  left_ms: number | null;  // null: the pace is unknown
}

export function stopsOf(run: Run): Record<string, unknown> {
  const stop = run.stop ?? run.job?.["stop"];
  return stop && typeof stop === "object" ? (stop as Record<string, unknown>) : {};
}

// Returns the metric of `stop:` that is nearest to its target. Returns null if the spec names none, or if none was
// reported.
export function progressOf(run: Run, points: readonly Point[]): Progress | null {
  let best: Progress | null = null;
  for (const [key, target] of Object.entries(stopsOf(run))) {
    const value = run.last_report?.metrics?.[key];
    if (typeof target !== "number" || typeof value !== "number" || target <= 0) continue;
    const ratio = Math.max(0, Math.min(1, value / target));
    if (best && best.ratio >= ratio) continue;
    best = { ratio, key, value, target, left_ms: leftOf(points, key, value, target) };
  }
  return best;
}

// Uses the pace of the present attempt.
function leftOf(points: readonly Point[], key: string, value: number, target: number): number | null {
  const newest = points.at(-1);
  if (!newest) return null;
  const first = points.find((point) => point.attempt === newest.attempt && point.values[key] !== undefined);
  const passed = newest.time - (first?.time ?? newest.time);
  const gained = value - (first?.values[key] ?? value);
  if (passed <= 0 || gained <= 0) return null;
  return Math.max(0, ((target - value) / gained) * passed);
}

// Returns the time that remains by limits.wall_time, which counts from the first start.
export function limitOf(run: Run, now: number): { left_ms: number; whole_ms: number } | null {
  const limits = run.job?.["limits"] as Record<string, unknown> | undefined;
  const whole = durationOf(limits?.["wall_time"]);
  const started = moment(run.started);
  if (whole === null || started === null) return null;
  return { left_ms: Math.max(0, whole - (now - started)), whole_ms: whole };
}

const unit_ms: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

// Parses "1h30m", or a number of milliseconds.
export function durationOf(value: unknown): number | null {
  if (typeof value === "number") return value;
  if (typeof value !== "string" || !/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(value)) return null;
  let sum = 0;
  for (const [, count, unit] of value.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)) sum += Number(count) * unit_ms[unit!]!;
  return sum;
}

// Formats times: exactly in the reader's time zone, or as a distance from now.
import { duration } from "./units.ts";

export function moment(iso: string | null | undefined): number | null {
  if (!iso) return null;
  const at = Date.parse(iso);
  return Number.isNaN(at) ? null : at;
}

const pad = (value: number, width = 2) => String(value).padStart(width, "0");

export function clock(at: number): string {
  const date = new Date(at);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

export function exact(iso: string | null | undefined): string {
  const at = moment(iso);
  if (at === null) return "never";
  const date = new Date(at);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock(at)}`;
}

// "11-28 14:05": the day and the minute, for times within some months.
export function dayAndClock(at: number): string {
  const date = new Date(at);
  return `${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock(at).slice(0, 5)}`;
}

// Returns the label of a time on an axis of this length: seconds on a short one, the day on a long one.
export function axisTime(at: number, length_ms: number): string {
  const hours = length_ms / 3_600_000;
  if (hours > 24 * 8) return dayAndClock(at).slice(0, 5);
  if (hours > 13) return dayAndClock(at);
  return hours > 1 ? clock(at).slice(0, 5) : clock(at);
}

export function ago(iso: string | null | undefined, now: number): string {
  const at = moment(iso);
  if (at === null) return "never";
  const passed = now - at;
  if (passed < -1_000) return `in ${duration(-passed)}`;
  return passed < 1_000 ? "now" : `${duration(passed)} ago`;
}

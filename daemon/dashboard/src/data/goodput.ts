// What the time of a run went to. Pure.
import type { Goodput, GoodputCause, Run } from "../api/types.ts";

export const causes = [
  "productive", "queue", "detect", "schedule", "start", "restore", "replay", "checkpoint", "data", "straggler",
] as const;

export const meaning: Record<string, string> = {
  productive: "training",
  queue: "waiting in the queue",
  detect: "until a failure was noticed",
  schedule: "until a place was found",
  start: "starting workers",
  restore: "loading a checkpoint",
  replay: "training steps again that were lost",
  checkpoint: "waiting for a checkpoint to be written",
  data: "waiting for input",
  straggler: "waiting for the slowest rank",
};

export interface Part {
  cause: string;
  seconds: number;
  ratio: number;
}

// Null: the head does not tell.
export function goodputOf(run: Pick<Run, "goodput">): { parts: Part[]; total: number; productive: number; advice: string[] } | null {
  const given = run.goodput;
  if (!given) return null;
  const rows: GoodputCause[] = Array.isArray(given) ? given : (given.causes ?? []);
  const advice = Array.isArray(given) ? [] : ((given as Goodput).advice ?? []);
  const total = rows.reduce((sum, one) => sum + Math.max(0, one.seconds), 0);
  if (total <= 0) return null;
  const place = (cause: string) => {
    const at = (causes as readonly string[]).indexOf(cause);
    return at < 0 ? causes.length : at;
  };
  const parts = rows
    .filter((one) => one.seconds > 0)
    .map((one) => ({ ...one, ratio: one.seconds / total }))
    .sort((a, b) => place(a.cause) - place(b.cause));
  const productive = parts.find((one) => one.cause === "productive")?.ratio ?? 0;
  return { parts, total, productive, advice };
}

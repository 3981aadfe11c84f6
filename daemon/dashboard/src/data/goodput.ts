// Computes what the time of a run was used for. Pure.
import type { Run } from "../api/types.ts";

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
  ms: number;
  ratio: number;  // fraction of wall_ms
}

// Returns null if the answer contains no times, or if no time has passed.
export function goodputOf(run: Pick<Run, "goodput">): { parts: Part[]; productive: number } | null {
  const given = run.goodput;
  if (!given || given.wall_ms <= 0) return null;
  const place = (cause: string) => {
    const at = (causes as readonly string[]).indexOf(cause);
    return at < 0 ? causes.length : at;
  };
  const parts = Object.entries(given.causes_ms)
    .filter(([, ms]) => ms > 0)
    .map(([cause, ms]) => ({ cause, ms, ratio: ms / given.wall_ms }))
    .sort((a, b) => place(a.cause) - place(b.cause));
  return { parts, productive: given.ratio };
}

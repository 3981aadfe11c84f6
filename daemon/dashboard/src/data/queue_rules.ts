// A queue's rules as people type them, and what a change of them is. Pure.
import type { QueueRecord } from "../api/types.ts";

export interface Rules {
  share: number;
  quota: Record<string, string>;
  borrow: boolean;
  preempt: boolean;
}

export const quotaText = (quota: Record<string, string>) => Object.entries(quota).map(([name, amount]) => `${name}=${amount}`).join(" ");

// Returns null for a text that is not a list of NAME=AMOUNT.
export function quotaIn(text: string): Record<string, string> | null {
  const words = text.split(/[\s,]+/).filter((word) => word !== "");
  const pairs = words.map((word) => /^([^=]+)=(\d[\w.]*)$/.exec(word));
  if (pairs.some((pair) => pair === null)) return null;
  return Object.fromEntries(pairs.map((pair) => [pair![1]!, pair![2]!]));
}

// Returns the body of the request, with the changed fields only, and the changes in words. A resource that is no longer
// in the quota has no limit.
export function changesOf(before: QueueRecord | null, after: Rules): { body: Record<string, unknown>; words: string[] } {
  const body: Record<string, unknown> = {};
  const words: string[] = [];
  const set = (name: "share" | "borrow" | "preempt", word: (value: unknown) => string) => {
    if (before && before[name] === after[name]) return;
    body[name] = after[name];
    words.push(before ? `${name} from ${word(before[name])} to ${word(after[name])}` : `${name} ${word(after[name])}`);
  };
  const yes = (value: unknown) => (value === true ? "yes" : "no");
  set("share", String);
  const quota: Record<string, string | null> = {};
  for (const name of new Set([...Object.keys(before?.quota ?? {}), ...Object.keys(after.quota)])) {
    const old = before?.quota[name];
    const now = after.quota[name];
    if (old === now) continue;
    quota[name] = now ?? null;
    words.push(`${name} from ${old ?? "no limit"} to ${now ?? "no limit"}`);
  }
  if (Object.keys(quota).length > 0) body["quota"] = quota;
  set("borrow", yes);
  set("preempt", yes);
  return { body, words };
}

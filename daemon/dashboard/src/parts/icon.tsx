// Small icons beside words, without further meaning.
import type { Icon as Name } from "../text/states.ts";

const paths: Record<string, string> = {
  play: "M5 3.5v9l7.5-4.5z",
  check: "M3 8.5l3.2 3.2L13 5",
  cross: "M4 4l8 8M12 4l-8 8",
  stop: "M4.5 4.5h7v7h-7z",
  clock: "M8 4.5V8l2.5 1.8M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2z",
  turn: "M13 8a5 5 0 1 1-1.5-3.6M13 2.5v3h-3",
  move: "M3 8h10M9 4l4 4-4 4",
  alert: "M8 2.5L14 13H2zM8 6.5v3M8 11.2v.3",
  dot: "M8 6.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3z",
  away: "M3 13L13 3M4 8a4 4 0 0 1 6-3.4M12 8a4 4 0 0 1-6 3.4",
  copy: "M5.5 5.5h7v7h-7zM3.5 10.5v-7h7",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM8 1.5v1.4M8 13.1v1.4M1.5 8h1.4M13.1 8h1.4M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z",
  flag: "M4 14V2.5h7.5L9.8 5.5l1.7 3H4",
};

const filled = new Set(["play", "stop"]);

export function Icon({ name }: { name: Name | "copy" | "sun" | "moon" | "flag" }) {
  return (
    <svg class={filled.has(name) ? "icon filled" : "icon"} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={paths[name] ?? paths["dot"]!} />
    </svg>
  );
}

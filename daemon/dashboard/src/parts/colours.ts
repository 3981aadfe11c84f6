// Colours for canvases, from the style sheet of the present theme.
import { useEffect, useState } from "preact/hooks";

let probe: HTMLSpanElement | null = null;
const known = new Map<string, string>();

export function colour(name: string): string {
  const before = known.get(name);
  if (before !== undefined) return before;
  if (!probe) {
    probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(--${name})`;
  const found = getComputedStyle(probe).color;
  known.set(name, found);
  return found;
}

const listeners = new Set<() => void>();
let version = 0;

export function themeChanged(): void {
  known.clear();
  version += 1;
  for (const listener of [...listeners]) listener();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);

// A counter that is incremented with each change of the theme; drawings depend on it.
export function useTheme(): number {
  const [seen, set] = useState(version);
  useEffect(() => {
    const listener = () => set(version);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
    };
  }, []);
  return seen;
}

export const series_colours = 8;

export function seriesColour(at: number): string {
  return colour(`series-${at % series_colours}`);
}

// Returns a colour for a name, the same each time.
export function placeOfName(name: string): number {
  let hash = 2166136261;
  for (let at = 0; at < name.length; at += 1) hash = Math.imul(hash ^ name.charCodeAt(at), 16777619);
  return (hash >>> 0) % series_colours;
}

// Colours for canvases, from the style sheet of the present theme.
import { useEffect, useState } from "preact/hooks";
import { seriesColour } from "../text/series_colour.ts";

let probe: HTMLSpanElement | null = null;
const known = new Map<string, string>();

// `name`: a colour of the style sheet, or "series-N" with any N.
export function colour(name: string): string {
  const before = known.get(name);
  if (before !== undefined) return before;
  if (!probe) {
    probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = name.startsWith("series-") ? seriesColour(Number(name.slice(7))) : `var(--${name})`;
  const colour_text = getComputedStyle(probe).color;
  known.set(name, colour_text);
  return colour_text;
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

const places = new Map<string, number>();

// Returns the number of a name's colour: each name that the page has shown has another one.
export function placeOfName(name: string): number {
  const known = places.get(name);
  if (known !== undefined) return known;
  places.set(name, places.size);
  return places.size - 1;
}

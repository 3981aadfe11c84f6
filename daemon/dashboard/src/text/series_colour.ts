// The colours of lines and runs: eight of the style sheet, then hues that lie far from each other.
const named = 8;
const golden_angle = 137.508;

export function seriesColour(at: number): string {
  if (at < named) return `var(--series-${at})`;
  const hue = Math.round((30 + (at - named) * golden_angle) % 360);
  return `light-dark(hsl(${hue} 65% 40%), hsl(${hue} 70% 66%))`;
}

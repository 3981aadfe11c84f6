// Computes the position of each node on the cluster's map, and the node under a key or the mouse. Pure.

export interface Grid {
  columns: number;
  rows: number;
  tile: number;  // length of a side in px
  gap: number;
  width: number;
  height: number;
}

const largest_tile = 56;
const smallest_tile = 9;

// Returns the largest tiles with which all nodes fit into `width` x `height`. If even the smallest do not fit, the map
// becomes taller.
export function gridFor(count: number, width: number, height: number): Grid {
  let tile = largest_tile;
  let gap = 4;
  for (; tile > smallest_tile; tile -= 1) {
    gap = tile > 24 ? 5 : tile > 14 ? 3 : 2;
    const columns = Math.max(1, Math.floor((width + gap) / (tile + gap)));
    if (Math.ceil(count / columns) * (tile + gap) - gap <= height) break;
  }
  const columns = Math.max(1, Math.floor((width + gap) / (tile + gap)));
  const rows = Math.ceil(count / columns);
  return { columns, rows, tile, gap, width, height: Math.max(0, rows * (tile + gap) - gap) };
}

export function placeOf(grid: Grid, at: number): { x: number; y: number } {
  const step = grid.tile + grid.gap;
  return { x: (at % grid.columns) * step, y: Math.floor(at / grid.columns) * step };
}

export function nodeAt(grid: Grid, count: number, x: number, y: number): number | null {
  const step = grid.tile + grid.gap;
  const column = Math.floor(x / step);
  const row = Math.floor(y / step);
  if (x < 0 || y < 0 || column >= grid.columns || x % step > grid.tile || y % step > grid.tile) return null;
  const at = row * grid.columns + column;
  return at < count ? at : null;
}

export function moved(grid: Grid, count: number, at: number, key: string): number {
  const steps: Record<string, number> = {
    ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid.columns, ArrowDown: grid.columns, Home: -at, End: count - 1 - at,
  };
  const next = at + (steps[key] ?? 0);
  return next < 0 || next >= count ? at : next;
}

// Thousands of nodes as one drawing: a tile each, a cell for each GPU, its CPU use as a line below. The arrow keys walk
// over it; what is chosen stands beside it as a card.
import { useEffect, useRef, useState } from "preact/hooks";
import type { NodeRecord } from "../../api/types.ts";
import { colour, placeOfName, seriesColour, useTheme } from "../../parts/colours.ts";
import { useWidth } from "../../parts/width.ts";
import { devicesOf, holdersOf, isHeld, share, stateOf, totalsOf } from "../../data/nodes.ts";
import { type Grid, gridFor, moved, nodeAt, placeOf } from "../../data/grid.ts";
import { lookOf } from "../../text/states.ts";
import { plural } from "../../text/units.ts";
import { NodeCard } from "./node_card.tsx";

const height_wanted = 420;

// The rows of cells in a tile: 8 GPUs are two rows of four.
export function cellsOf(gpus: number): { columns: number; rows: number } {
  const columns = Math.max(1, Math.ceil(Math.sqrt(gpus)));
  const wide = gpus === 8 ? 4 : columns;
  return { columns: wide, rows: Math.max(1, Math.ceil(gpus / wide)) };
}

function drawTile(draw: CanvasRenderingContext2D, node: NodeRecord, grid: Grid, x: number, y: number) {
  const { tile } = grid;
  const state = stateOf(node);
  const tone = lookOf(state).tone;
  draw.fillStyle = colour("track");
  draw.fillRect(x, y, tile, tile);
  const line = Math.max(2, Math.round(tile / 9));
  const space = tile - line - 1;
  const devices = devicesOf(node);
  if (devices.length > 0) {
    const { columns, rows } = cellsOf(devices.length);
    const width = tile / columns;
    const height = space / rows;
    devices.forEach((device, at) => {
      if (!isHeld(device)) return;
      const holder = holdersOf(device)[0];
      draw.fillStyle = holder === undefined ? colour("held") : seriesColour(placeOfName(holder));
      draw.fillRect(x + (at % columns) * width, y + Math.floor(at / columns) * height, width - (width > 3 ? 1 : 0.4), height - (height > 3 ? 1 : 0.4));
    });
  } else if (node.runs[0] !== undefined) {
    draw.fillStyle = seriesColour(placeOfName(node.runs[0]));
    draw.fillRect(x, y, tile, space);
  }
  const cpu = share(node, "CPU") ?? 0;
  draw.fillStyle = colour("grid");
  draw.fillRect(x, y + tile - line, tile, line);
  draw.fillStyle = colour("accent");
  draw.fillRect(x, y + tile - line, tile * cpu, line);
  if (tone === "good") return;
  draw.strokeStyle = colour(tone === "bad" ? "bad" : "wait");
  draw.lineWidth = Math.max(1.5, tile / 14);
  draw.strokeRect(x + 0.75, y + 0.75, tile - 1.5, tile - 1.5);
  if (tone !== "bad") return;
  draw.beginPath();
  draw.moveTo(x + 2, y + 2);
  draw.lineTo(x + tile - 2, y + tile - 2);
  draw.moveTo(x + tile - 2, y + 2);
  draw.lineTo(x + 2, y + tile - 2);
  draw.stroke();
}

export function NodeMap({ nodes }: { nodes: NodeRecord[] }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const theme = useTheme();
  const [chosen, setChosen] = useState(0);
  const at = Math.min(chosen, nodes.length - 1);
  const grid = gridFor(nodes.length, width, height_wanted);
  useEffect(() => {
    const element = canvas.current;
    const draw = element?.getContext("2d");
    if (!element || !draw || width === 0) return;
    const began = performance.now();
    const scale = devicePixelRatio || 1;
    element.width = grid.width * scale;
    element.height = grid.height * scale;
    draw.scale(scale, scale);
    nodes.forEach((node, place) => {
      const { x, y } = placeOf(grid, place);
      drawTile(draw, node, grid, x, y);
    });
    const { x, y } = placeOf(grid, at);
    draw.strokeStyle = colour("text");
    draw.lineWidth = 2;
    draw.strokeRect(x - 1, y - 1, grid.tile + 2, grid.tile + 2);
    performance.measure("draw-nodes", { start: began, end: performance.now() });
  }, [nodes, width, grid.tile, grid.columns, at, theme]);
  const totals = totalsOf(nodes);
  const states = [...totals.states].map(([state, count]) => `${count} ${lookOf(state).word.toLowerCase()}`).join(", ");
  const node = nodes[at];
  const key = (event: KeyboardEvent) => {
    const next = moved(grid, nodes.length, at, event.key);
    if (next === at) return;
    event.preventDefault();
    setChosen(next);
  };
  const click = (event: MouseEvent) => {
    const found = nodeAt(grid, nodes.length, event.offsetX, event.offsetY);
    if (found !== null) setChosen(found);
  };
  return (
    <div class="map">
      <div ref={box} class="map-box">
        <canvas ref={canvas} tabIndex={0} role="application" aria-roledescription="map of nodes"
          aria-label={`${plural(nodes.length, "node")}: ${states}. Arrow keys choose a node; the table shows all.`}
          aria-describedby="map-chosen" style={{ width: `${grid.width}px`, height: `${grid.height}px` }} onKeyDown={key} onClick={click} />
        <p class="legend">
          <span><i class="swatch held-any" aria-hidden="true" /> GPU in use, one colour a run</span>
          <span><i class="swatch free" aria-hidden="true" /> free</span>
          <span><i class="swatch accent" aria-hidden="true" /> CPUs in use</span>
          <span><i class="swatch out wait" aria-hidden="true" /> draining or not connected</span>
          <span><i class="swatch out bad" aria-hidden="true" /> quarantined or lost</span>
        </p>
      </div>
      <div id="map-chosen" class="map-card" aria-live="polite">{node && <NodeCard node={node} />}</div>
    </div>
  );
}

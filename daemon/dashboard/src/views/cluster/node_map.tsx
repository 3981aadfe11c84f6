// Thousands of nodes as one drawing: one tile per node, with a cell for each GPU (use and memory), and lines below for
// the node's CPUs and memory. The arrow keys move over it; a card shows the chosen node.
import { useEffect, useRef, useState } from "preact/hooks";
import type { GpuDevice, NodeRecord } from "../../api/types.ts";
import { colour, placeOfName, useTheme } from "../../parts/colours.ts";
import { useWidth } from "../../parts/width.ts";
import { gpuMemoryRatio, gpuUse, holdersOf, isHeld, memoryRatio, share, stateOf, totalsOf } from "../../data/nodes.ts";
import { gridFor, moved, nodeAt, placeOf } from "../../data/grid.ts";
import { lookOf, type Tone } from "../../text/states.ts";
import { plural } from "../../text/units.ts";
import { NodeCard } from "./node_card.tsx";

const height_wanted = 460;

// Returns the rows of cells in a tile: 8 GPUs are two rows of four.
export function cellsOf(gpus: number): { columns: number; rows: number } {
  const columns = Math.max(1, Math.ceil(Math.sqrt(gpus)));
  const wide = gpus === 8 ? 4 : columns;
  return { columns: wide, rows: Math.max(1, Math.ceil(gpus / wide)) };
}

// Rectangles by layer and colour. They are drawn together, because setting a colour takes longer than filling a
// rectangle.
class Layers {
  readonly #layers: Map<string, number[]>[] = [];
  add(layer: number, fill: string, x: number, y: number, width: number, height: number): void {
    const of = (this.#layers[layer] ??= new Map<string, number[]>());
    const rectangles = of.get(fill);
    if (rectangles) rectangles.push(x, y, width, height);
    else of.set(fill, [x, y, width, height]);
  }
  draw(on: CanvasRenderingContext2D): void {
    this.#layers.forEach((layer, at) => {
      on.globalAlpha = at === idle_layer ? 0.4 : 1;
      for (const [fill, all] of layer) {
        on.fillStyle = colour(fill);
        for (let at = 0; at < all.length; at += 4) on.fillRect(all[at]!, all[at + 1]!, all[at + 2]!, all[at + 3]!);
      }
    });
    on.globalAlpha = 1;
  }
}

const idle_layer = 1;  // the layer of a GPU's unused part in its holder's colour

const fillOf = (run: string | undefined) => (run === undefined ? "held" : `series-${placeOfName(run)}`);

// Draws a GPU: its holder's colour up to its use, paler above, and its memory as a line at the right.
function addGpu(layers: Layers, device: GpuDevice, x: number, y: number, width: number, height: number) {
  const busy = device.utilization_ratio ?? null;
  const held = isHeld(device);
  const fill = fillOf(holdersOf(device)[0]);
  if (held && busy !== null) layers.add(idle_layer, fill, x, y, width, height);
  const part = height * (busy ?? (held ? 1 : 0));
  if (part > 0) layers.add(2, fill, x, y + height - part, width, part);
  const memory = gpuMemoryRatio(device);
  if (memory === null || width < memory_seen) return;
  const line = Math.max(1, Math.min(3, width / 5));
  layers.add(3, "text", x + width - line, y + height * (1 - memory), line, height * memory);
}

// A GPU that is at least this wide shows its own memory. Narrower ones share a line for the node's memory.
const memory_seen = 4;

function addTile(layers: Layers, node: NodeRecord, tile: number, x: number, y: number) {
  layers.add(0, "track", x, y, tile, tile);
  const devices = node.gpu_devices;
  const { columns, rows } = cellsOf(devices.length);
  const width = tile / columns;
  const { memory } = gpuUse(node);
  const lines: [number | null, string][] = [[share(node, "CPU"), "accent"], [memoryRatio(node), "busy"]];
  if (memory !== null && width < memory_seen) lines.unshift([memory.used / memory.total, "text"]);
  const line = Math.max(1, tile / 14);
  const space = tile - lines.length * line;
  lines.forEach(([ratio, fill], at) => {
    const top = y + space + at * line;
    layers.add(2, "grid", x, top, tile, line);
    layers.add(3, fill, x, top, tile * (ratio ?? 0), line);
  });
  if (devices.length === 0 && node.runs[0] !== undefined) layers.add(2, fillOf(node.runs[0]), x, y, tile, space - 1);
  const height = (space - 1) / rows;
  devices.forEach((device, at) =>
    addGpu(layers, device, x + (at % columns) * width, y + Math.floor(at / columns) * height, width - (width > 3 ? 1 : 0.4), height - (height > 3 ? 1 : 0.4)),
  );
}

// Draws a frame around a node that is not fully usable, with a cross if it is out of service.
function drawState(draw: CanvasRenderingContext2D, tone: Tone, tile: number, x: number, y: number) {
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
    const layers = new Layers();
    nodes.forEach((node, place) => {
      const { x, y } = placeOf(grid, place);
      addTile(layers, node, grid.tile, x, y);
    });
    layers.draw(draw);
    nodes.forEach((node, place) => {
      const { x, y } = placeOf(grid, place);
      drawState(draw, lookOf(stateOf(node)).tone, grid.tile, x, y);
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
    const place = nodeAt(grid, nodes.length, event.offsetX, event.offsetY);
    if (place !== null) setChosen(place);
  };
  return (
    <div class="map">
      <div ref={box} class="map-box">
        <canvas ref={canvas} tabIndex={0} role="application" aria-roledescription="map of nodes"
          aria-label={`${plural(nodes.length, "node")}: ${states}. Arrow keys choose a node; the table shows all.`}
          aria-describedby="map-chosen" style={{ width: `${grid.width}px`, height: `${grid.height}px` }} onKeyDown={key} onClick={click} />
        <p class="legend">
          <span><i class="swatch held-any" aria-hidden="true" /> GPU held, a colour for each run; as high as it is busy</span>
          <span><i class="swatch accent gpu-memory-line" aria-hidden="true" /> GPU memory in use</span>
          <span><i class="swatch free" aria-hidden="true" /> free</span>
          <span><i class="swatch accent" aria-hidden="true" /> CPUs allocated</span>
          <span><i class="swatch accent busy" aria-hidden="true" /> memory in use</span>
          <span><i class="swatch out wait" aria-hidden="true" /> draining or not connected</span>
          <span><i class="swatch out bad" aria-hidden="true" /> quarantined or lost</span>
        </p>
      </div>
      <div id="map-chosen" class="map-card" aria-live="polite">{node && <NodeCard node={node} />}</div>
    </div>
  );
}

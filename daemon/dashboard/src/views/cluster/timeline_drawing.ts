// Draws the timeline of runs on nodes, and finds the bar under the mouse.
import type { Bar, Span, Timeline } from "../../data/timeline.ts";
import { ticksOf } from "../../data/timeline.ts";
import { colour, placeOfName } from "../../parts/colours.ts";
import { axisTime } from "../../text/time.ts";

export interface Layout {
  span: Span;
  left: number;  // width of the names in px
  width: number;
  height: number;
  tops: number[];  // by row
  heights: number[];
}

const axis_height = 22;
const row_height = 15;
const subrow_least = 5;  // height in px of a subrow of a row that has several
const node_gap = 5;
const label_shown = 26;  // a bar of this width in px has room for letters

export function layoutOf(timeline: Timeline, span: Span, width: number): Layout {
  const tops: number[] = [];
  const heights = timeline.subrows.map((subrows) => Math.max(row_height, subrows * subrow_least));
  let top = axis_height;
  timeline.rows.forEach((row, at) => {
    if (row.first && at > 0) top += node_gap;
    tops.push(top);
    top += heights[at]!;
  });
  return { span, left: width < 500 ? 92 : 150, width, height: top + 4, tops, heights };
}

const xOf = (layout: Layout, time: number) => layout.left + ((time - layout.span.from) / (layout.span.to - layout.span.from)) * (layout.width - layout.left);

export function timeAt(layout: Layout, x: number): number {
  const ratio = Math.max(0, Math.min(1, (x - layout.left) / (layout.width - layout.left)));
  return layout.span.from + ratio * (layout.span.to - layout.span.from);
}

function boxOf(timeline: Timeline, layout: Layout, bar: Bar) {
  const subrow = layout.heights[bar.row]! / timeline.subrows[bar.row]!;
  const x = xOf(layout, bar.from);
  return { x, y: layout.tops[bar.row]! + bar.subrow * subrow, width: Math.max(2, xOf(layout, bar.to) - x), height: Math.max(2, subrow - 1) };
}

// Returns the index of the bar under the mouse; -1: none.
export function barAt(timeline: Timeline, layout: Layout, x: number, y: number): number {
  return timeline.bars.findLastIndex((bar) => {
    const box = boxOf(timeline, layout, bar);
    return x >= box.x - 1 && x <= box.x + box.width + 1 && y >= box.y && y < box.y + box.height;
  });
}

// Returns the text, shortened to fit into `width` px; empty if not even its begin fits.
function fitted(draw: CanvasRenderingContext2D, text: string, width: number): string {
  if (draw.measureText(text).width <= width) return text;
  for (let length = text.length - 1; length > 2; length -= 1) {
    const part = `${text.slice(0, length)}…`;
    if (draw.measureText(part).width <= width) return part;
  }
  return "";
}

function drawAxis(draw: CanvasRenderingContext2D, layout: Layout) {
  const length = layout.span.to - layout.span.from;
  draw.fillStyle = colour("quiet");
  draw.textAlign = "center";
  for (const tick of ticksOf(layout.span, Math.max(2, Math.floor((layout.width - layout.left) / 90)))) {
    const x = xOf(layout, tick);
    draw.fillStyle = colour("grid");
    draw.fillRect(x, axis_height - 4, 1, layout.height - axis_height);
    draw.fillStyle = colour("quiet");
    if (x > layout.left + 24 && x < layout.width - 30) draw.fillText(axisTime(tick, length), x, axis_height / 2 - 1);
  }
}

function drawNames(draw: CanvasRenderingContext2D, timeline: Timeline, layout: Layout) {
  timeline.rows.forEach((row, at) => {
    const top = layout.tops[at]!;
    draw.fillStyle = colour("track");
    draw.fillRect(layout.left, top, layout.width - layout.left, layout.heights[at]! - 1);
    const middle = top + row_height / 2;
    draw.fillStyle = colour("quiet");
    draw.textAlign = "right";
    if (row.gpu !== null) draw.fillText(String(row.gpu), layout.left - 6, middle);
    if (!row.first) return;
    draw.textAlign = "left";
    draw.fillStyle = colour("text");
    draw.fillText(fitted(draw, row.node, layout.left - 28), 0, middle);
  });
}

function drawBars(draw: CanvasRenderingContext2D, timeline: Timeline, layout: Layout) {
  draw.textAlign = "left";
  for (const bar of timeline.bars) {
    const { x, y, width, height } = boxOf(timeline, layout, bar);
    draw.fillStyle = colour(`series-${placeOfName(bar.of.name)}`);
    draw.fillRect(x, y, width, height);
    const failed = bar.of.attempt_state === "FAILED" || bar.of.attempt_state === "LOST";
    if (failed) {
      draw.fillStyle = colour("bad");
      draw.fillRect(x + width - 3, y, 3, height);
    }
    if (height < row_height - 2 || width < label_shown) continue;
    draw.fillStyle = colour("panel");
    draw.fillText(fitted(draw, bar.of.name, width - 8), x + 4, y + height / 2 + 0.5);
  }
}

export function drawTimeline(element: HTMLCanvasElement, timeline: Timeline, layout: Layout, chosen: Bar | undefined, drag: { from: number; to: number } | null) {
  const draw = element.getContext("2d");
  if (!draw) return;
  const scale = devicePixelRatio || 1;
  element.width = layout.width * scale;
  element.height = layout.height * scale;
  draw.scale(scale, scale);
  draw.font = "11px system-ui, sans-serif";
  draw.textBaseline = "middle";
  drawNames(draw, timeline, layout);
  drawAxis(draw, layout);
  drawBars(draw, timeline, layout);
  if (chosen) {
    const { x, y, width, height } = boxOf(timeline, layout, chosen);
    draw.strokeStyle = colour("text");
    draw.lineWidth = 2;
    draw.strokeRect(x - 1, y - 1, width + 2, height + 2);
  }
  if (drag && Math.abs(drag.to - drag.from) >= 6) {
    draw.fillStyle = colour("shade");
    draw.fillRect(Math.min(drag.from, drag.to), axis_height, Math.abs(drag.to - drag.from), layout.height);
  }
}

// Rank x time: each cell is how long a rank took for a report, against the median of all ranks at that time.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Intervals, slowness } from "../data/intervals.ts";
import { clock } from "../text/time.ts";
import { duration } from "../text/units.ts";
import { colour, useTheme } from "./colours.ts";
import { useWidth } from "./width.ts";

const steps = ["heat-0", "heat-1", "heat-2", "heat-3", "heat-4"];
const bounds = [1.1, 1.25, 1.5, 2]; // of slowness, between the steps

function stepOf(slow: number): number {
  return bounds.filter((bound) => slow >= bound).length;
}

export function HeatMap({ seen, ranks }: { seen: Intervals; ranks: number[] }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const theme = useTheme();
  const [text, setText] = useState("");
  const rowHeight = Math.max(2, Math.min(18, Math.floor(360 / Math.max(1, ranks.length))));
  const height = rowHeight * ranks.length;
  const columnWidth = Math.max(3, Math.floor(width / Math.max(60, seen.times.length)));
  const first = Math.max(0, seen.times.length - Math.floor(width / columnWidth));
  useEffect(() => {
    const element = canvas.current;
    const draw = element?.getContext("2d");
    if (!element || !draw || width === 0) return;
    const scale = devicePixelRatio || 1;
    element.width = width * scale;
    element.height = height * scale;
    draw.scale(scale, scale);
    for (let at = first; at < seen.times.length; at += 1) {
      const slow = slowness(seen.columns[at]!);
      ranks.forEach((rank, row) => {
        const value = slow.get(rank);
        draw.fillStyle = value === undefined ? colour("track") : colour(steps[stepOf(value)]!);
        draw.fillRect((at - first) * columnWidth, row * rowHeight, columnWidth - (columnWidth > 3 ? 1 : 0), rowHeight - (rowHeight > 4 ? 1 : 0));
      });
    }
  }, [seen, ranks, width, height, first, columnWidth, rowHeight, theme]);
  const point = (event: MouseEvent) => {
    const at = first + Math.floor(event.offsetX / columnWidth);
    const rank = ranks[Math.floor(event.offsetY / rowHeight)];
    const value = rank === undefined ? undefined : seen.columns[at]?.get(rank);
    setText(rank === undefined || !seen.times[at] ? "" : `rank ${rank}, ${clock(seen.times[at]!)}: ${value ? duration(value) : "no report"}`);
  };
  return (
    <div ref={box} class="heat">
      <canvas ref={canvas} style={{ width: `${width}px`, height: `${height}px` }} role="img"
        aria-label={`Report intervals of ${ranks.length} ranks; the table of ranks has the last ones`}
        onMouseMove={point} onMouseLeave={() => setText("")} />
      <div class="heat-legend">
        <span>Against the median:</span>
        {["as fast", "+10 %", "+25 %", "+50 %", "twice"].map((word, at) => (
          <span key={word}><i class={`swatch heat-${at}`} aria-hidden="true" /> {word}</span>
        ))}
        <span class="quiet">{text}</span>
      </div>
    </div>
  );
}

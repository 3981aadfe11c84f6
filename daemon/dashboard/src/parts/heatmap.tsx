// Rank x time: each cell shows the own time of a rank for a report, divided by the median of all ranks then. The
// arrow keys move over it; a table contains all values.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Intervals, median, slowestAt } from "../data/intervals.ts";
import { clock } from "../text/time.ts";
import { duration, percent, plural } from "../text/units.ts";
import { colour, useTheme } from "./colours.ts";
import { type Column, Table } from "./table.tsx";
import { useWidth } from "./width.ts";

const steps = ["heat-0", "heat-1", "heat-2", "heat-3", "heat-4"];
const bounds = [1.1, 1.25, 1.5, 2];  // bounds of slowness between the colours
const ranks_tabled = 32;  // the most ranks with a column of their own

function stepOf(slow: number): number {
  return bounds.filter((bound) => slow >= bound).length;
}

interface Place {
  row: number;  // index of the rank
  time: number;  // time of its sample, so that the choice stays on it while others arrive
}

// Returns the index of the chosen sample, or of the newest one.
function columnOf(seen: Intervals, time: number): number {
  const at = seen.times.indexOf(time);
  return at < 0 ? seen.times.length - 1 : at;
}

export function HeatMap({ seen, ranks, pick }: { seen: Intervals; ranks: number[]; pick: (rank: number) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const theme = useTheme();
  const [chosen, setChosen] = useState<Place | null>(null);
  const [tabled, setTabled] = useState(false);
  const rowHeight = Math.max(2, Math.min(18, Math.floor(360 / Math.max(1, ranks.length))));
  const height = rowHeight * ranks.length;
  const columnWidth = Math.max(3, Math.floor(width / Math.max(60, seen.times.length)));
  const first = Math.max(0, seen.times.length - Math.floor(width / columnWidth));
  const column = chosen ? columnOf(seen, chosen.time) : -1;
  useEffect(() => {
    const element = canvas.current;
    const draw = element?.getContext("2d");
    if (!element || !draw || width === 0) return;
    const scale = devicePixelRatio || 1;
    element.width = width * scale;
    element.height = height * scale;
    draw.scale(scale, scale);
    for (let at = first; at < seen.times.length; at += 1) {
      const slow = seen.slowness[at]!;
      ranks.forEach((rank, row) => {
        const value = slow[rank] ?? 0;
        draw.fillStyle = value === 0 ? colour("track") : colour(steps[stepOf(value)]!);
        draw.fillRect((at - first) * columnWidth, row * rowHeight, columnWidth - (columnWidth > 3 ? 1 : 0), rowHeight - (rowHeight > 4 ? 1 : 0));
      });
    }
    if (!chosen || column < first) return;
    draw.strokeStyle = colour("text");
    draw.lineWidth = 2;
    draw.strokeRect((column - first) * columnWidth - 1, chosen.row * rowHeight - 1, columnWidth + 1, rowHeight + 1);
  }, [seen, ranks, width, height, first, columnWidth, rowHeight, theme, chosen, column]);
  const choose = (row: number, at: number) => {
    const time = seen.times[Math.max(first, Math.min(seen.times.length - 1, at))];
    if (time !== undefined) setChosen({ row: Math.max(0, Math.min(ranks.length - 1, row)), time });
  };
  const key = (event: KeyboardEvent) => {
    const row = chosen?.row ?? 0;
    const at = chosen ? column : seen.times.length - 1;
    const moves: Record<string, [number, number]> = {
      ArrowUp: [row - 1, at], ArrowDown: [row + 1, at], ArrowLeft: [row, at - 1], ArrowRight: [row, at + 1], Home: [row, first], End: [row, seen.times.length - 1],
      PageUp: [0, at], PageDown: [ranks.length - 1, at],
    };
    const to = moves[event.key];
    if (to) choose(...to);
    else if (event.key === "Enter" && chosen) pick(ranks[chosen.row]!);
    else return;
    event.preventDefault();
  };
  const point = (event: MouseEvent) => choose(Math.floor(event.offsetY / rowHeight), first + Math.floor(event.offsetX / columnWidth));
  const rank = chosen ? ranks[chosen.row] : undefined;
  return (
    <div ref={box} class="heat">
      <canvas ref={canvas} style={{ width: `${width}px`, height: `${height}px` }} role="application" tabIndex={0} aria-roledescription="heat map"
        aria-label={`Own times of ${plural(ranks.length, "rank")}, oldest at the left. Arrow keys choose a value, Enter shows what its rank used; the table shows all.`}
        aria-describedby="heat-chosen" onMouseMove={point} onKeyDown={key} onClick={() => rank !== undefined && pick(rank)} />
      <div class="heat-legend">
        <span>Against the median:</span>
        {["as fast", "+10 %", "+25 %", "+50 %", "twice"].map((word, at) => (
          <span key={word}><i class={`swatch heat-${at}`} aria-hidden="true" /> {word}</span>
        ))}
        <span id="heat-chosen" class="quiet" aria-live="polite">{rank === undefined ? "" : wordsOf(seen, column, rank)}</span>
        <button type="button" class="small" aria-expanded={tabled} onClick={() => setTabled(!tabled)}>{tabled ? "Hide table" : "Table"}</button>
      </div>
      {tabled && <HeatTable seen={seen} ranks={ranks} chosen={rank} />}
    </div>
  );
}

const intervalOf = (seen: Intervals, at: number, rank: number) => {
  const ms = seen.columns[at]?.[rank] ?? 0;
  return ms === 0 ? "no report" : duration(ms);
};

const againstMedian = (slow: number) => `${slow < 1 ? "-" : "+"}${percent(Math.abs(Math.round((slow - 1) * 100) / 100))}`;

function wordsOf(seen: Intervals, at: number, rank: number): string {
  const slow = seen.slowness[at]?.[rank] ?? 0;
  return `rank ${rank}, ${clock(seen.times[at] ?? 0)}: ${intervalOf(seen, at, rank)}${slow === 0 ? "" : `, ${againstMedian(slow)} against the median`}`;
}

// One row per time: the median, the slowest rank, and the interval of each rank (of many ranks, only of the chosen
// one).
function HeatTable({ seen, ranks, chosen }: { seen: Intervals; ranks: number[]; chosen: number | undefined }) {
  const rows = useMemo(() => seen.times.map((_, at) => seen.times.length - 1 - at), [seen]);
  const shown = ranks.length <= ranks_tabled ? ranks : chosen === undefined ? [] : [chosen];
  const columns: Column<number>[] = [
    { name: "Time", cell: (at) => clock(seen.times[at]!) },
    { name: "Median", number: true, cell: (at) => duration(median(seen.columns[at]!)) },
    { name: "Slowest", number: true, cell: (at) => {
      const slowest = slowestAt(seen, at);
      return slowest ? `rank ${slowest.rank}, ${againstMedian(slowest.slowness)}` : "none";
    }, width: 1.6 },
    ...shown.map((rank) => ({ name: `Rank ${rank}`, number: true, cell: (at: number) => intervalOf(seen, at, rank) })),
  ];
  return <Table label="Own times, newest first" items={rows} keyOf={(at) => seen.times[at]!} empty="None has come." columns={columns} height={260} />;
}

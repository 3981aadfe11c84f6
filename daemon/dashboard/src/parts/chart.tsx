// A line chart with shaded attempts and marked checkpoints. A table shows the same numbers.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { type Axis as DataAxis, joined, type Series, smoothed, type Span, thinned } from "../data/series.ts";
import { axisTime, clock, dayAndClock } from "../text/time.ts";
import { duration, number } from "../text/units.ts";
import { seriesColour } from "../text/series_colour.ts";
import { colour, useTheme } from "./colours.ts";
import { Table } from "./table.tsx";
import { useWidth } from "./width.ts";

export interface Line {
  name: string;
  series: Series;
  place?: number;  // index of its colour
}

export type Axis = DataAxis | "seconds";  // seconds: time since a begin

const points_most = 2_000;

const day_s = 86_400;

// `length`: of the axis, in its own unit. On an axis of days a time has its date.
export function xText(x: number, axis: Axis, length = 0): string {
  if (axis === "step") return number(x);
  if (axis === "time" && length > day_s) return dayAndClock(x * 1000);
  return axis === "time" ? clock(x * 1000) : duration(x * 1000);
}

function shade(u: uPlot, spans: readonly Span[]) {
  const { left, top, width, height } = u.bbox;
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.rect(left, top, width, height);
  u.ctx.clip();
  spans.forEach((span, at) => {
    const from = u.valToPos(span.from, "x", true);
    const to = u.valToPos(span.to, "x", true);
    if (at % 2 === 1) {
      u.ctx.fillStyle = colour("shade");
      u.ctx.fillRect(from, top, Math.max(1, to - from), height);
    }
    if (spans.length > 1 && to - from > 26 * devicePixelRatio) {
      u.ctx.fillStyle = colour("quiet");
      u.ctx.font = `${10 * devicePixelRatio}px system-ui, sans-serif`;
      u.ctx.textAlign = "left";
      u.ctx.textBaseline = "top";
      u.ctx.fillText(`#${span.attempt}`, from + 4 * devicePixelRatio, top + 2 * devicePixelRatio);
    }
  });
  u.ctx.restore();
}

function markCheckpoints(u: uPlot, marks: readonly { x: number }[]) {
  const { left, top, width, height } = u.bbox;
  const size = 3.5 * devicePixelRatio;
  u.ctx.save();
  u.ctx.fillStyle = colour("accent");
  for (const mark of marks) {
    const x = u.valToPos(mark.x, "x", true);
    if (x < left || x > left + width) continue;
    const y = top + height;
    u.ctx.beginPath();
    u.ctx.moveTo(x, y - 2 * size);
    u.ctx.lineTo(x + size, y - size);
    u.ctx.lineTo(x, y);
    u.ctx.lineTo(x - size, y - size);
    u.ctx.fill();
  }
  u.ctx.restore();
}

const lengthOf = (u: uPlot) => (u.scales["x"]?.max ?? 0) - (u.scales["x"]?.min ?? 0);

function optionsOf(given: { width: number; height: number; lines: Line[]; axis: Axis; log: boolean; spans: () => readonly Span[]; marks: () => readonly { x: number }[]; sync: string; cursor: (at: number | null) => void; format: (value: number) => string; floor?: number | undefined; top?: number | undefined }): uPlot.Options {
  const axis = {
    stroke: colour("quiet"),
    grid: { stroke: colour("grid"), width: 1 },
    ticks: { stroke: colour("grid"), width: 1, size: 4 },
    font: "11px system-ui, sans-serif",
  };
  return {
    width: given.width,
    height: given.height,
    padding: [10, given.axis === "step" ? 10 : 36, 0, 0],  // half of a time label is to the right of its position
    legend: { show: false },
    cursor: { sync: { key: given.sync }, points: { size: 7 }, drag: { x: true, y: false } },
    scales: { x: { time: false }, y: { distr: given.log ? 3 : 1, ...(given.floor === undefined ? {} : { range: (_: uPlot, __: number, most: number): [number, number] => [given.floor!, given.top ?? (most > given.floor! ? most + (most - given.floor!) * 0.06 : given.floor! + 1)] }) } },
    axes: [
      { ...axis, size: 28, space: 70, values: (u, ticks) => ticks.map((tick) => (given.axis === "time" ? axisTime(tick * 1000, lengthOf(u) * 1000) : xText(tick, given.axis))) },
      { ...axis, size: given.format === number ? 58 : 72, space: 34, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : given.format(tick))) },
    ],
    series: [
      {},
      ...given.lines.map((line, at) => ({
        label: line.name,
        stroke: colour(`series-${line.place ?? at}`),
        width: 1.75,
        // undefined: the value belongs to another line's time, and the line continues; null: the line is interrupted
        spanGaps: false,
        points: { show: (u: uPlot) => (u.data[0]?.length ?? 0) < 40, size: 5 },
      })),
    ],
    hooks: {
      drawClear: [(u) => shade(u, given.spans())],
      draw: [(u) => markCheckpoints(u, given.marks())],
      setCursor: [(u) => given.cursor(u.cursor.idx ?? null)],
    },
  };
}

export function Chart({ title, lines, axis, height = 220, spans = [], marks = [], log = false, smooth = 0, sync = "run", format = number, floor, top }: {
  title: string;
  lines: Line[];
  axis: Axis;
  height?: number;
  spans?: readonly Span[];
  marks?: readonly { x: number; name: string }[];
  log?: boolean;
  smooth?: number;
  sync?: string;
  format?: (value: number) => string;
  floor?: number;  // begin of the scale; absent: the least value
  top?: number | undefined;  // end of the scale, if there is a floor
}) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const theme = useTheme();
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const [tabled, setTabled] = useState(false);
  const below = useRef({ spans, marks });
  below.current = { spans, marks };
  const data = useMemo(
    () => joined(lines.map((line) => thinned(smoothed(line.series, smooth), points_most))),
    [lines, smooth],
  );
  const newest = useRef(data);
  newest.current = data;
  const names = lines.map((line) => `${line.place ?? ""}${line.name}`).join("\n");
  useEffect(() => {
    if (!box.current || width === 0) return;
    const drawing = new uPlot(
      optionsOf({ width, height, lines, axis, log, sync, format, floor, top, spans: () => below.current.spans, marks: () => below.current.marks, cursor: setAt }),
      [newest.current.x, ...newest.current.y] as uPlot.AlignedData,
      box.current,
    );
    plot.current = drawing;
    return () => {
      drawing.destroy();
      plot.current = null;
    };
  }, [width, height, names, axis, log, theme, sync]);
  useEffect(() => {
    plot.current?.setData([data.x, ...data.y] as uPlot.AlignedData);
  }, [data, spans, marks]);
  const shownAt = at !== null && at < data.x.length ? at : data.x.length - 1;
  const length = (data.x.at(-1) ?? 0) - (data.x[0] ?? 0);
  const valueAt = (line: number) => {
    const y = data.y[line] ?? [];
    for (let place = shownAt; place >= 0; place -= 1) if (typeof y[place] === "number") return format(y[place] as number);
    return "none";
  };
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong>
        <span class="chart-values">
          {data.x.length > 0 && <span class="quiet">{axis === "step" ? `step ${xText(data.x[shownAt]!, axis)}` : xText(data.x[shownAt]!, axis, length)}</span>}
          {lines.slice(0, 16).map((line, place) => (
            <span key={line.name} class="chart-value">
              <i class="swatch" style={{ background: seriesColour(line.place ?? place) }} aria-hidden="true" />
              {lines.length > 1 && <span>{line.name}</span>} <b>{valueAt(place)}</b>
            </span>
          ))}
        </span>
        <button type="button" class="small" aria-expanded={tabled} onClick={() => setTabled(!tabled)}>{tabled ? "Hide table" : "Table"}</button>
      </figcaption>
      <div ref={box} class="chart-box" role="img" aria-label={`Chart of ${title}. The button "Table" shows its numbers.`} style={{ minHeight: `${height}px` }} />
      {tabled && <ChartTable {...{ title, lines, data, axis, format }} />}
    </figure>
  );
}

function ChartTable({ title, lines, data, axis, format }: { title: string; lines: Line[]; data: ReturnType<typeof joined>; axis: Axis; format: (value: number) => string }) {
  const rows = useMemo(() => data.x.map((_, place) => data.x.length - 1 - place), [data]);
  const length = (data.x.at(-1) ?? 0) - (data.x[0] ?? 0);
  return (
    <Table label={`Numbers of ${title}`} items={rows} keyOf={(place) => place} empty="There is no number yet." height={260}
      columns={[
        { name: axis === "step" ? "Step" : "Time", cell: (place) => xText(data.x[place]!, axis, length), number: axis === "step" },
        ...lines.map((line, of) => ({
          name: line.name,
          number: true,
          cell: (place: number) => {
            const value = data.y[of]?.[place];
            return typeof value === "number" ? format(value) : "";
          },
        })),
      ]}
    />
  );
}

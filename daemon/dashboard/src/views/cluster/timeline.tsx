// A chart of the runs on nodes: one row per GPU, one bar per attempt. Buttons and a drag of the mouse zoom, the arrow keys
// choose a bar, and a table contains all of them.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { call } from "../../api/client.ts";
import { useLoaded } from "../../api/hooks.ts";
import type { NodeRecord, TimelineAnswer } from "../../api/types.ts";
import { type Bar, moved, type Span, type Timeline, timelineOf } from "../../data/timeline.ts";
import { placeOfName, useTheme } from "../../parts/colours.ts";
import { Panel, ProblemNote, Quiet } from "../../parts/panel.tsx";
import { Table } from "../../parts/table.tsx";
import { useWidth } from "../../parts/width.ts";
import { Words } from "../../parts/words.tsx";
import { address, setQuery, useRoute } from "../../router.ts";
import { seriesColour } from "../../text/series_colour.ts";
import { dayAndClock } from "../../text/time.ts";
import { duration, plural } from "../../text/units.ts";
import { barAt, drawTimeline, layoutOf, timeAt } from "./timeline_drawing.ts";

const hour = 3_600_000;
const spans: [string, number][] = [["hour", hour], ["6 hours", 6 * hour], ["day", 24 * hour], ["week", 7 * 24 * hour]];
const nodes_at_once = 8;
const again_ms = 15_000;

function useSpan(): { span: Span; live: boolean; set: (span: Span | null, length?: number) => void } {
  const { query } = useRoute();
  const length = Number(query.get("span")) || 24 * hour;
  const until = Number(query.get("until")) || 0;
  const now = Date.now();
  const to = until === 0 ? now : Math.min(until, now);
  const set = (span: Span | null, wanted = length) => {
    const ended = span !== null && span.to < Date.now() - 1_000;
    setQuery({ span: String(span ? span.to - span.from : wanted), until: ended ? String(span.to) : "" });
  };
  return { span: { from: to - length, to }, live: until === 0, set };
}

export function RunsOnNodes({ nodes }: { nodes: readonly NodeRecord[] }) {
  const { query } = useRoute();
  const { span, live, set } = useSpan();
  const names = useMemo(() => [...nodes].sort((a, b) => a.node.localeCompare(b.node, "en", { numeric: true })), [nodes]);
  const pages = Math.max(1, Math.ceil(names.length / nodes_at_once));
  const page = Math.min(pages - 1, Number(query.get("part")) || 0);
  const shown = names.slice(page * nodes_at_once, (page + 1) * nodes_at_once);
  const key = shown.map((node) => node.node).join();
  const read = useLoaded(async (signal) => {
    const asked = live ? { from: Date.now() - (span.to - span.from), to: Date.now() } : span;
    const only = pages > 1 ? `&node=${encodeURIComponent(key)}` : "";
    const answer = await call<TimelineAnswer>(`/v1/timeline?from_ms=${Math.round(asked.from)}&until_ms=${Math.round(asked.to)}${only}`, { signal });
    return { answer, span: asked };
  }, [key, span.to - span.from, live ? 0 : span.to], live ? again_ms : 0);
  // The chart before stays until the next one has arrived.
  const last = useRef(read.value);
  if (read.value) last.current = read.value;
  const loaded = last.current;
  const timeline = useMemo(() => {
    if (!loaded) return null;
    const gpus = new Map(shown.map((node) => [node.node, node.gpus]));
    return timelineOf(gpus, loaded.answer.items, loaded.span, loaded.span.to);
  }, [loaded, key]);
  const turn = (factor: number, shift: number) => set(moved(span, factor, shift, Date.now()));
  const length = span.to - span.from;
  return (
    <Panel title="Runs on nodes" wide aside={
      <span class="tools">
        <button type="button" class="small" onClick={() => turn(1, -0.5)}>Earlier</button>
        <button type="button" class="small" disabled={live} onClick={() => turn(1, 0.5)}>Later</button>
        <button type="button" class="small" onClick={() => turn(0.5, 0)}>Zoom in</button>
        <button type="button" class="small" onClick={() => turn(2, 0)}>Zoom out</button>
        {!live && <button type="button" class="small" onClick={() => set(null)}>Now</button>}
        <label class="field"><span>Span</span>
          <select value={String(length)} onChange={(event) => set(null, Number(event.currentTarget.value))}>
            {spans.map(([word, ms]) => <option key={word} value={String(ms)}>{word}</option>)}
            {!spans.some(([, ms]) => ms === length) && <option value={String(length)}>{duration(length)}</option>}
          </select></label>
      </span>
    }>
      <p class="quiet">{dayAndClock(span.from)} to {live ? "now" : dayAndClock(span.to)}</p>
      {read.problem && (read.problem.status === 404 ? <Quiet>This head has no record of which runs were on its nodes.</Quiet> : <ProblemNote problem={read.problem} />)}
      {timeline && loaded && <Chart timeline={timeline} span={loaded.span} zoom={(to) => set(to)} />}
      {!loaded && !read.problem && <Quiet>Loading.</Quiet>}
      {loaded?.answer.whole === false && <Quiet>There are more attempts than are drawn: choose a shorter span.</Quiet>}
      {pages > 1 && (
        <div class="tools">
          <span class="quiet">Nodes {page * nodes_at_once + 1} to {page * nodes_at_once + shown.length} of {names.length}</span>
          <button type="button" class="small" disabled={page === 0} onClick={() => setQuery({ part: String(page - 1) })}>Nodes before</button>
          <button type="button" class="small" disabled={page + 1 >= pages} onClick={() => setQuery({ part: String(page + 1) })}>Nodes after</button>
        </div>
      )}
    </Panel>
  );
}

const placeText = (timeline: Timeline, bar: Bar) => {
  const row = timeline.rows[bar.row]!;
  return row.gpu === null ? row.node : `GPU ${row.gpu} of ${row.node}`;
};

function barText(timeline: Timeline, bar: Bar): string {
  const { name, attempt, user, placed, ended } = bar.of;
  return `${name}, attempt ${attempt}, by ${user}, on ${placeText(timeline, bar)}: ${dayAndClock(Date.parse(placed))} to ${ended ? dayAndClock(Date.parse(ended)) : "now"}`;
}

function Chart({ timeline, span, zoom }: { timeline: Timeline; span: Span; zoom: (to: Span) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const theme = useTheme();
  const [at, setAt] = useState<number | null>(null);  // index of the chosen bar
  const [tabled, setTabled] = useState(false);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);  // in px
  const layout = useMemo(() => layoutOf(timeline, span, width), [timeline, span, width]);
  const chosen = at === null ? undefined : timeline.bars[at];
  useEffect(() => {
    const element = canvas.current;
    if (element && width > 0) drawTimeline(element, timeline, layout, chosen, drag);
  }, [timeline, layout, chosen, drag, theme, width]);
  const open = (bar: Bar | undefined) => {
    if (bar) location.hash = address(["runs", bar.of.run_id]);
  };
  const key = (event: KeyboardEvent) => {
    const moves: Record<string, number | undefined> = {
      ArrowRight: at === null ? 0 : Math.min(timeline.bars.length - 1, at + 1), ArrowLeft: Math.max(0, (at ?? 0) - 1), Home: 0, End: timeline.bars.length - 1,
      ArrowDown: firstBehind(timeline, chosen?.row ?? -1), ArrowUp: lastBefore(timeline, chosen?.row ?? 0),
    };
    const to = moves[event.key];
    if (to !== undefined && timeline.bars.length > 0) setAt(to);
    else if (event.key === "Enter") open(chosen);
    else if (event.key === "+" || event.key === "-") zoom(moved(span, event.key === "+" ? 0.5 : 2, 0, Date.now()));
    else return;
    event.preventDefault();
  };
  const point = (event: MouseEvent) => {
    if (drag) return setDrag({ ...drag, to: event.offsetX });
    const at = barAt(timeline, layout, event.offsetX, event.offsetY);
    setAt(at < 0 ? null : at);
  };
  const release = (event: MouseEvent) => {
    const from = drag?.from ?? event.offsetX;
    setDrag(null);
    if (Math.abs(event.offsetX - from) < 6) return open(timeline.bars[barAt(timeline, layout, event.offsetX, event.offsetY)]);
    const [a, b] = [from, event.offsetX].sort((x, other) => x - other) as [number, number];
    zoom({ from: Math.round(timeAt(layout, a)), to: Math.round(timeAt(layout, b)) });
  };
  return (
    <div ref={box} class="timeline">
      <canvas ref={canvas} role="application" tabIndex={0} aria-roledescription="timeline" aria-describedby="timeline-chosen"
        aria-label={`${plural(timeline.bars.length, "bar")} of runs on ${plural(timeline.rows.length, "row")} of nodes and GPUs. Arrow keys choose a bar, Enter opens its run, plus and minus zoom; the table shows all.`}
        style={{ width: `${width}px`, height: `${layout.height}px` }} onKeyDown={key} onMouseMove={point} onMouseLeave={() => setDrag(null)}
        onMouseDown={(event) => setDrag({ from: event.offsetX, to: event.offsetX })} onMouseUp={release} />
      <div class="heat-legend">
        <span id="timeline-chosen" class="quiet" aria-live="polite">{chosen ? barText(timeline, chosen) : timeline.bars.length === 0 ? "No run was on these nodes." : "Drag to zoom, click a bar to open its run."}</span>
        <button type="button" class="small" aria-expanded={tabled} onClick={() => setTabled(!tabled)}>{tabled ? "Hide table" : "Table"}</button>
      </div>
      {tabled && <BarTable timeline={timeline} />}
    </div>
  );
}

function firstBehind(timeline: Timeline, row: number): number {
  const behind = timeline.bars.findIndex((bar) => bar.row > row);
  return behind < 0 ? timeline.bars.length - 1 : behind;
}

function lastBefore(timeline: Timeline, row: number): number {
  const before = timeline.bars.findLast((bar) => bar.row < row);
  return before ? timeline.bars.findIndex((bar) => bar.row === before.row) : 0;
}

function BarTable({ timeline }: { timeline: Timeline }) {
  const rows = useMemo(() => [...timeline.bars].sort((a, b) => Date.parse(b.of.placed) - Date.parse(a.of.placed)), [timeline]);
  return (
    <Table label="Runs on nodes, newest first" items={rows} keyOf={(bar) => `${bar.of.run_id} ${bar.of.attempt} ${bar.row}`} empty="No run was on these nodes." height={300}
      columns={[
        { name: "Run", cell: (bar) => <><i class="swatch" style={{ background: seriesColour(placeOfName(bar.of.name)) }} aria-hidden="true" /> <a href={address(["runs", bar.of.run_id])}><Words text={bar.of.name} /></a></>, sort: (bar) => bar.of.name, width: 1.6 },
        { name: "Attempt", number: true, cell: (bar) => bar.of.attempt, width: 0.7 },
        { name: "User", cell: (bar) => bar.of.user, sort: (bar) => bar.of.user },
        { name: "Node", cell: (bar) => <a href={address(["nodes", timeline.rows[bar.row]!.node])}>{timeline.rows[bar.row]!.node}</a>, sort: (bar) => bar.row },
        { name: "GPU", number: true, cell: (bar) => timeline.rows[bar.row]!.gpu ?? "none", width: 0.6 },
        { name: "From", cell: (bar) => dayAndClock(Date.parse(bar.of.placed)), sort: (bar) => Date.parse(bar.of.placed) },
        { name: "Until", cell: (bar) => (bar.of.ended ? dayAndClock(Date.parse(bar.of.ended)) : "now"), sort: (bar) => (bar.of.ended ? Date.parse(bar.of.ended) : Infinity) },
      ]}
    />
  );
}

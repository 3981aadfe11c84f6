// One chart for each metric of a run, by step or time, for one rank or all.
import { useMemo, useState } from "preact/hooks";
import { useReports } from "../../api/reports.ts";
import { Chart, type Line } from "../../parts/chart.tsx";
import { Panel, Quiet } from "../../parts/panel.tsx";
import { RankChoice } from "../../parts/rank_choice.tsx";
import { type Axis, checkpointsOf, keysOf, seriesOf, spansOf } from "../../data/series.ts";
import { setQuery, useRoute } from "../../router.ts";
import type { Shown } from "./shown.ts";

const charts_first = 12;
const ranks_most = 16;  // the most lines in one chart

export function MetricsTab({ run, attempts }: Shown) {
  const { query } = useRoute();
  const rank = query.get("rank") ?? "0";
  const axis: Axis = query.get("x") === "time" ? "time" : "step";
  const log = query.get("y") === "log";
  const wanted = query.get("filter") ?? "";
  const smooth = Math.min(0.99, Math.max(0, Number(query.get("smooth") ?? "0") || 0));
  const [most, setMost] = useState(charts_first);
  const world = Math.max(1, ...attempts.map((listed_attempt) => listed_attempt.world_size));
  const asked = rank === "all" ? (world > ranks_most ? `0-${ranks_most - 1}` : "all") : rank;
  const reports = useReports(run.run_id, asked);
  const several = rank === "all";
  const keys = useMemo(() => {
    const all = several ? [...new Set([...reports.by_rank.values()].flatMap((points) => keysOf(points)))].sort() : keysOf(reports.points);
    return all.filter((key) => key.toLowerCase().includes(wanted.toLowerCase()));
  }, [reports, wanted, several]);
  const spans = useMemo(() => spansOf(reports.points, attempts, axis, Date.now()), [reports, attempts, axis]);
  const marks = useMemo(() => checkpointsOf(reports.points, axis), [reports, axis]);
  return (
    <Panel title="Metrics" wide aside={<span class="quiet">{keys.length} shown{reports.thinned ? ", older reports thinned out" : ""}</span>}>
      <div class="tools">
        <label class="field"><span>Filter</span>
          <input type="search" value={wanted} onInput={(event) => setQuery({ filter: event.currentTarget.value })} /></label>
        <RankChoice value={rank} world={world} onChange={(chosen_rank) => setQuery({ rank: chosen_rank })}
          words={world > 1 ? [{ value: "all", word: world > ranks_most ? `0 to ${ranks_most - 1}` : "all" }] : []} />
        <label class="field"><span>Over</span>
          <select value={axis} onChange={(event) => setQuery({ x: event.currentTarget.value })}>
            <option value="step">step</option><option value="time">time</option>
          </select></label>
        <label class="field"><span>Scale</span>
          <select value={log ? "log" : "linear"} onChange={(event) => setQuery({ y: event.currentTarget.value })}>
            <option value="linear">linear</option><option value="log">logarithmic</option>
          </select></label>
        <label class="field"><span>Smoothing {smooth.toFixed(2)}</span>
          <input type="range" min="0" max="0.99" step="0.01" value={String(smooth)} onInput={(event) => setQuery({ smooth: event.currentTarget.value })} /></label>
      </div>
      {keys.length === 0 && <Quiet>{reports.points.length === 0 ? "No report has come yet." : "No metric fits the filter."}</Quiet>}
      <div class="charts">
        {keys.slice(0, most).map((key) => <KeyChart key={key} name={key} {...{ reports, several, axis, log, smooth, spans, marks }} />)}
      </div>
      {keys.length > most && <button type="button" onClick={() => setMost(most + 24)}>Show {Math.min(24, keys.length - most)} more</button>}
      <p class="quiet legend"><span>Every second attempt is shaded.</span><span><i class="diamond" aria-hidden="true" /> checkpoint</span><span>Drag over a chart to zoom, press twice to go back.</span></p>
    </Panel>
  );
}

function KeyChart({ name, reports, several, axis, log, smooth, spans, marks }: {
  name: string;
  reports: ReturnType<typeof useReports>;
  several: boolean;
  axis: Axis;
  log: boolean;
  smooth: number;
  spans: ReturnType<typeof spansOf>;
  marks: ReturnType<typeof checkpointsOf>;
}) {
  const lines = useMemo<Line[]>(() => {
    if (!several) return [{ name, series: seriesOf(reports.points, name, axis) }];
    return [...reports.by_rank].sort(([a], [b]) => Number(a) - Number(b)).map(([rank, points]) => ({ name: `rank ${rank}`, series: seriesOf(points, name, axis), place: Number(rank) }));
  }, [reports, several, name, axis]);
  return <Chart title={name} lines={lines} axis={axis} log={log} smooth={smooth} spans={spans} marks={marks} />;
}

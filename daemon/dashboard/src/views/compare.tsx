// Several runs side by side: one chart per metric with a line for each run, and the differences of their specs.
import { useEffect, useMemo, useState } from "preact/hooks";
import { call } from "../api/client.ts";
import { useLoaded } from "../api/hooks.ts";
import { useReports } from "../api/reports.ts";
import type { Run } from "../api/types.ts";
import { Chart } from "../parts/chart.tsx";
import { Panel, ProblemNote, Quiet } from "../parts/panel.tsx";
import { State } from "../parts/state.tsx";
import { Table } from "../parts/table.tsx";
import { Words } from "../parts/words.tsx";
import { differences } from "../data/differences.ts";
import { keysOf, type Point, type Series, seriesOf } from "../data/series.ts";
import { address, setQuery, useRoute } from "../router.ts";
import { duration, number } from "../text/units.ts";
import { moment } from "../text/time.ts";

const runs_most = 4;  // Each run is followed on its own connection, and a browser opens six.

// On a time axis each run begins at zero.
export function sinceStart(series: Series, points: readonly Point[]): Series {
  const begin = (points[0]?.time ?? 0) / 1000;
  return { x: series.x.map((one) => one - begin), y: series.y };
}

export function Compare() {
  const { query } = useRoute();
  const ids = useMemo(() => [...new Set((query.get("runs") ?? "").split(",").filter((one) => one !== ""))].slice(0, runs_most), [query.get("runs")]);
  const runs = useLoaded((signal) => Promise.all(ids.map((id) => call<Run>(`/v1/runs/${encodeURIComponent(id)}`, { signal }))), [ids.join(",")], 10_000);
  const [added, setAdded] = useState("");
  const [points, setPoints] = useState<ReadonlyMap<string, Point[]>>(new Map());
  const add = (event: Event) => {
    event.preventDefault();
    if (added.trim() !== "") setQuery({ runs: [...ids, added.trim()].join(",") });
    setAdded("");
  };
  return (
    <div class="view">
      <h1>Compare</h1>
      <form class="tools" onSubmit={add}>
        {(runs.value ?? []).map((one) => (
          <span class="chip" key={one.run_id}>
            <a href={address(["runs", one.run_id])}><Words text={one.name} /></a> <State state={one.state} />
            <button type="button" class="plain" aria-label={`Leave out ${one.name}`} onClick={() => setQuery({ runs: ids.filter((id) => id !== one.run_id && id !== one.name).join(",") })}>×</button>
          </span>
        ))}
        {ids.length < runs_most && (
          <>
            <label class="field"><span class="visually-hidden">Another run</span>
              <input type="text" placeholder="name or id of a run" value={added} onInput={(event) => setAdded(event.currentTarget.value)} /></label>
            <button type="submit">Add</button>
          </>
        )}
      </form>
      {runs.problem && <ProblemNote problem={runs.problem} />}
      {ids.length === 0 && <Quiet>Choose runs in <a href="#/runs">Runs</a>, or add them here. At most {runs_most} are shown.</Quiet>}
      {(runs.value ?? []).map((one) => <Follow key={one.run_id} run={one.run_id} give={(found) => setPoints((before) => new Map(before).set(one.run_id, found))} />)}
      {runs.value && runs.value.length > 0 && <Charts runs={runs.value} points={points} />}
      {runs.value && runs.value.length > 1 && <Specs runs={runs.value} />}
    </div>
  );
}

// Reads one run's reports for the view. Draws nothing.
function Follow({ run, give }: { run: string; give: (points: Point[]) => void }) {
  const reports = useReports(run);
  useEffect(() => give(reports.points), [reports]);
  return null;
}

function Charts({ runs, points }: { runs: Run[]; points: ReadonlyMap<string, Point[]> }) {
  const { query } = useRoute();
  const axis = query.get("x") === "time" ? "time" : "step";
  const log = query.get("y") === "log";
  const smooth = Math.min(0.99, Math.max(0, Number(query.get("smooth") ?? "0") || 0));
  const keys = useMemo(() => [...new Set(runs.flatMap((one) => keysOf(points.get(one.run_id) ?? [])))].sort(), [runs, points]);
  return (
    <Panel title="Metrics" wide>
      <div class="tools">
        <label class="field"><span>Over</span>
          <select value={axis} onChange={(event) => setQuery({ x: event.currentTarget.value })}><option value="step">step</option><option value="time">time since the first report</option></select></label>
        <label class="field"><span>Scale</span>
          <select value={log ? "log" : "linear"} onChange={(event) => setQuery({ y: event.currentTarget.value })}><option value="linear">linear</option><option value="log">logarithmic</option></select></label>
        <label class="field"><span>Smoothing {smooth.toFixed(2)}</span>
          <input type="range" min="0" max="0.99" step="0.01" value={String(smooth)} onInput={(event) => setQuery({ smooth: event.currentTarget.value })} /></label>
      </div>
      {keys.length === 0 && <Quiet>No report has come yet.</Quiet>}
      <div class="charts">
        {keys.slice(0, 24).map((key) => <CompareChart key={key} name={key} {...{ runs, points, axis, log, smooth }} />)}
      </div>
    </Panel>
  );
}

function CompareChart({ name, runs, points, axis, log, smooth }: { name: string; runs: Run[]; points: ReadonlyMap<string, Point[]>; axis: "step" | "time"; log: boolean; smooth: number }) {
  const lines = useMemo(
    () => runs.map((run, place) => {
      const of = points.get(run.run_id) ?? [];
      const series = seriesOf(of, name, axis);
      return { name: run.name, series: axis === "time" ? sinceStart(series, of) : series, place };
    }),
    [runs, points, name, axis],
  );
  return <Chart title={name} lines={lines} axis={axis === "time" ? "seconds" : "step"} log={log} smooth={smooth} sync="compare" />;
}

function Specs({ runs }: { runs: Run[] }) {
  const found = differences(runs.map((one) => one.job));
  const outcome = (one: Run) => ({ state: one.state, attempts: one.attempts, reports: one.last_report ? number(one.last_report.index) : "none", took: took(one) });
  const rows = [
    ...(["state", "attempts", "reports", "took"] as const).map((field) => ({ field, values: runs.map((one) => String(outcome(one)[field])) })),
    ...found,
  ];
  return (
    <Panel title="What differs" wide aside={<span class="quiet">{found.length} fields of the specs</span>}>
      <Table label="Differences" items={rows} keyOf={(one) => one.field} empty="Their specs are the same."
        columns={[
          { name: "Field", cell: (one) => <code><Words text={one.field} /></code>, sort: (one) => one.field },
          ...runs.map((run, at) => ({ name: run.name, cell: (one: { values: (string | null)[] }) => <span class="value"><Words text={one.values[at] ?? "not set"} /></span> })),
        ]}
      />
    </Panel>
  );
}

function took(run: Run): string {
  const started = moment(run.started);
  return started === null ? "not started" : duration((moment(run.ended) ?? Date.now()) - started);
}

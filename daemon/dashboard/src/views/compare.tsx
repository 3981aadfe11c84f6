// Any number of runs side by side: one row for each with what differs, and one chart per metric with a line for each run.
import { useMemo, useState } from "preact/hooks";
import { call } from "../api/client.ts";
import { useHistories } from "../api/histories.ts";
import { useLoaded } from "../api/hooks.ts";
import { severally } from "../api/several.ts";
import type { Run } from "../api/types.ts";
import { Chart } from "../parts/chart.tsx";
import { Panel, ProblemNote, Quiet } from "../parts/panel.tsx";
import { State } from "../parts/state.tsx";
import { Table } from "../parts/table.tsx";
import { Words } from "../parts/words.tsx";
import { type Differing, differing } from "../data/compare.ts";
import { keysOf, type Point, type Series, seriesOf } from "../data/series.ts";
import { address, setQuery, useRoute } from "../router.ts";
import { seriesColour } from "../text/series_colour.ts";
import { duration, number } from "../text/units.ts";
import { moment } from "../text/time.ts";

// On a time axis each run begins at zero.
export function sinceStart(series: Series, points: readonly Point[]): Series {
  const begin = (points[0]?.time ?? 0) / 1000;
  return { x: series.x.map((seconds) => seconds - begin), y: series.y };
}

export function Compare() {
  const { query } = useRoute();
  const ids = useMemo(() => [...new Set((query.get("runs") ?? "").split(",").filter((id) => id !== ""))], [query.get("runs")]);
  const runs = useLoaded((signal) => severally(ids, (id) => call<Run>(`/v1/runs/${encodeURIComponent(id)}`, { signal })), [ids.join(",")], 10_000);
  const histories = useHistories(runs.value ?? []);
  const [added, setAdded] = useState("");
  const add = (event: Event) => {
    event.preventDefault();
    if (added.trim() !== "") setQuery({ runs: [...ids, added.trim()].join(",") });
    setAdded("");
  };
  const leave = (run: Run) => setQuery({ runs: ids.filter((id) => id !== run.run_id && id !== run.name).join(",") });
  return (
    <div class="view">
      <h1>Compare</h1>
      <form class="tools" onSubmit={add}>
        <label class="field"><span class="visually-hidden">Another run</span>
          <input type="text" placeholder="name or id of a run" value={added} onInput={(event) => setAdded(event.currentTarget.value)} /></label>
        <button type="submit">Add</button>
      </form>
      {runs.problem && <ProblemNote problem={runs.problem} />}
      {ids.length === 0 && <Quiet>Choose runs in <a href="#/runs">Runs</a>, or add them here.</Quiet>}
      {runs.value && runs.value.length > 0 && <Differences runs={runs.value} leave={leave} />}
      {histories.problem && <ProblemNote problem={histories.problem} />}
      {runs.value && runs.value.length > 0 && <Charts runs={runs.value} points={histories.value ?? new Map<string, Point[]>()} read={histories.value !== undefined} />}
    </div>
  );
}

function Charts({ runs, points, read }: { runs: Run[]; points: ReadonlyMap<string, Point[]>; read: boolean }) {
  const { query } = useRoute();
  const axis = query.get("x") === "time" ? "time" : "step";
  const log = query.get("y") === "log";
  const smooth = Math.min(0.99, Math.max(0, Number(query.get("smooth") ?? "0") || 0));
  const keys = useMemo(() => [...new Set(runs.flatMap((run) => keysOf(points.get(run.run_id) ?? [])))].sort(), [runs, points]);
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
      {keys.length === 0 && <Quiet>{read ? "No report has come yet." : "Loading."}</Quiet>}
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

const kinds: Record<Differing["kind"], string> = { config: "config", metric: "last value", spec: "spec" };
const specs_first = 8;  // columns of fields of the specs

function Differences({ runs, leave }: { runs: Run[]; leave: (run: Run) => void }) {
  const [all, setAll] = useState(false);
  const differences = useMemo(() => differing(runs), [runs]);
  const specs = differences.filter((difference) => difference.kind === "spec");
  const shown = all ? differences : differences.filter((difference) => difference.kind !== "spec" || specs.indexOf(difference) < specs_first);
  const rows = runs.map((run, place) => ({ run, place }));
  return (
    <Panel title="What differs" wide aside={
      <span class="tools">
        <span class="quiet">{differences.filter((difference) => difference.kind === "config").length} values of the config, {specs.length} fields of the specs</span>
        {specs.length > specs_first && <button type="button" class="small" aria-pressed={all} onClick={() => setAll(!all)}>All fields</button>}
      </span>
    }>
      <Table label="Runs and what differs" items={rows} keyOf={({ run }) => run.run_id} empty="none" height={600}
        columns={[
          { name: "Run", width: 2, sort: ({ run }) => run.name, cell: ({ run, place }) => <><i class="swatch" style={{ background: seriesColour(place) }} aria-hidden="true" /> <a href={address(["runs", run.run_id])}><Words text={run.name} /></a></> },
          { name: "State", cell: ({ run }) => <State state={run.state} title={run.reason_brief} />, sort: ({ run }) => run.state },
          { name: "Took", number: true, cell: ({ run }) => took(run), sort: ({ run }) => (moment(run.ended) ?? Date.now()) - (moment(run.started) ?? Date.now()) },
          ...shown.map((difference) => ({
            name: difference.kind === "metric" ? `${difference.field} (${kinds[difference.kind]})` : difference.field,
            number: numeric(difference),
            sort: ({ place }: { place: number }) => sortable(difference, place),
            cell: ({ place }: { place: number }) => <Value of={difference} place={place} />,
          })),
          { name: "Leave out", cell: ({ run }) => <button type="button" class="small" aria-label={`Leave out ${run.name}`} onClick={() => leave(run)}>×</button>, width: 0.6 },
        ]}
      />
    </Panel>
  );
}

const isNumber = (text: string | null) => text !== null && text.trim() !== "" && Number.isFinite(Number(text));
const numeric = (difference: Differing) => difference.values.every((value) => value === null || isNumber(value));
const sortable = (difference: Differing, place: number) => {
  const value = difference.values[place] ?? null;
  return numeric(difference) ? (value === null ? -Infinity : Number(value)) : (value ?? "");
};

function Value({ of, place }: { of: Differing; place: number }) {
  const value = of.values[place] ?? null;
  if (value === null) return <span class="quiet">not set</span>;
  if (isNumber(value)) return <>{number(Number(value))}</>;
  return <span class="value"><Words text={value} /></span>;
}

function took(run: Run): string {
  const started = moment(run.started);
  return started === null ? "not started" : duration((moment(run.ended) ?? Date.now()) - started);
}

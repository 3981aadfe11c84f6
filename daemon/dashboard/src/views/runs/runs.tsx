// All runs, newest first: arranged by driver, array and sweep, with a choice of columns, and ways to compare or stop
// several of them.
import { useMemo, useState } from "preact/hooks";
import { call, list } from "../../api/client.ts";
import { useCalm, useLoaded, useNow, useSession } from "../../api/hooks.ts";
import type { Page, Run } from "../../api/types.ts";
import { Panel, ProblemNote, Quiet } from "../../parts/panel.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Words } from "../../parts/words.tsx";
import { type Grouping, groupings, ownLabels, remoteKind, type Row, rowsOf, runsOf } from "../../data/run_rows.ts";
import { owns } from "../../data/rights.ts";
import { address, setQuery, useRoute } from "../../router.ts";
import { hasEnded } from "../../text/states.ts";
import { number, plural } from "../../text/units.ts";
import { useEvents } from "../cluster/events.tsx";
import { ColumnChoice, columnsFor, shownColumns } from "./columns.tsx";
import { StopMany } from "./stop_many.tsx";

const first_most = 1_000;

function metricsOf(runs: readonly Run[]): string[] {
  const keys = new Set<string>();
  for (const run of runs) for (const [key, value] of Object.entries(run.last_report?.metrics ?? {})) if (typeof value === "number") keys.add(key);
  return [...keys].sort();
}

const matches = (run: Run, wanted: string) => `${run.name} ${run.user} ${run.queue} ${run.run_id} ${ownLabels(run)}`.toLowerCase().includes(wanted);

export function Runs() {
  const { query } = useRoute();
  const now = useNow(2_000);
  const session = useSession();
  const all = query.get("all") === "1";
  const state = query.get("state") ?? "";
  const wanted = (query.get("find") ?? "").toLowerCase();
  const path = `/v1/runs?${new URLSearchParams({ ...(all ? { all: "true" } : {}), ...(state ? { state } : {}) }).toString()}`;
  const runs = useLoaded(async (signal) => {
    if (all) return { items: await list<Run>(path, signal, 20_000), more: false };
    const page = await call<Page<Run>>(`${path}&limit=${first_most}`, { signal });
    return { items: page.items, more: page.next_cursor !== null };
  }, [path], 5_000);
  useEvents({ onNew: useCalm(() => runs.reload(), 1_000) });
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [stops, setStops] = useState(false);
  const grouping = (query.get("group") ?? "") as Grouping;
  const shown = useMemo(() => (runs.value?.items ?? []).filter((run) => wanted === "" || matches(run, wanted)), [runs.value, wanted]);
  const rows = useMemo(() => rowsOf(shown, grouping), [shown, grouping]);
  const metrics = useMemo(() => metricsOf(shown), [shown]);
  const metric = query.get("metric") ?? metrics.find((key) => /loss/i.test(key)) ?? metrics[0] ?? "";
  const columns = shownColumns(query);
  const chosen = shown.filter((run) => picked.has(run.run_id));
  const live = chosen.filter((run) => !hasEnded(run.state) && owns(session, run));
  const pick = (of: readonly Run[], on: boolean) => {
    const next = new Set(picked);
    for (const { run_id } of of) on ? next.add(run_id) : next.delete(run_id);
    setPicked(next);
  };
  const turn = (key: string) => setOpened((before) => {
    const next = new Set(before);
    if (!next.delete(key)) next.add(key);
    return next;
  });
  const isOpen = (row: Row) => wanted !== "" || opened.has(row.key);
  const first: Column<Row>[] = [
    { name: "Choose", width: 0.5, cell: (row) => {
      const of = row.run ? [row.run] : row.runs;
      return <input type="checkbox" aria-label={`Choose ${row.run ? "" : `all of ${row.kind} `}${row.name}`} checked={of.every((run) => picked.has(run.run_id))} onChange={(event) => pick(of, event.currentTarget.checked)} />;
    } },
    { name: "Run", width: 2.4, sort: (row) => row.name, cell: (row) => <Name row={row} open={isOpen(row)} turn={() => turn(row.key)} /> },
  ];
  return (
    <div class="view">
      <h1>Runs</h1>
      <Panel title={all ? "All runs" : "Runs that live, or ended within a day"} wide aside={
        <span class="tools">
          {chosen.length === 0 && <span class="quiet">Choose runs to compare or stop them.</span>}
          {live.length > 0 && <button type="button" class="danger" onClick={() => setStops(true)}>Stop {live.length}</button>}
          {chosen.length > 0 && <a class="button primary" href={address(["compare"], { runs: chosen.map((run) => run.run_id).join(",") })}>Compare {chosen.length}</a>}
        </span>
      }>
        <div class="tools">
          <label class="field grow"><span class="visually-hidden">Filter runs</span>
            <input type="search" placeholder="Filter: name, user, queue, label" value={query.get("find") ?? ""} onInput={(event) => setQuery({ find: event.currentTarget.value })} /></label>
          <label class="field"><span>State</span>
            <select value={state} onChange={(event) => setQuery({ state: event.currentTarget.value })}>
              <option value="">any</option>
              {["QUEUED", "STARTING", "RUNNING", "RECOVERING", "RESIZING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED"].map((state) => <option key={state} value={state}>{state.toLowerCase()}</option>)}
            </select></label>
          <label class="field"><span>Group by</span>
            <select value={grouping} onChange={(event) => setQuery({ group: event.currentTarget.value })}>
              <option value="">driver, array, sweep</option>
              {groupings.map((grouping_kind) => <option key={grouping_kind} value={grouping_kind}>{grouping_kind === "none" ? "nothing" : grouping_kind}</option>)}
            </select></label>
          <ColumnChoice shown={columns} metrics={metrics} metric={metric} />
          {shown.length > 0 && <button type="button" onClick={() => pick(shown, chosen.length < shown.length)}>{chosen.length < shown.length ? `Choose all ${number(shown.length)}` : "Choose none"}</button>}
          <label class="check"><input type="checkbox" checked={all} onChange={(event) => setQuery({ all: event.currentTarget.checked ? "1" : "" })} /> older ones too</label>
        </div>
        {runs.problem && <ProblemNote problem={runs.problem} />}
        {!runs.value && !runs.problem && <Quiet>Loading.</Quiet>}
        {runs.value && (
          <Table label="Runs, newest first" items={rows} keyOf={(row) => row.key} height={600} below={(row) => (isOpen(row) ? row.below : [])}
            empty={runs.value.items.length === 0 ? "There is no run. To submit one: rtrain submit job.yaml" : "No run fits the filter."}
            columns={[...first, ...columnsFor(columns, now, metric)]}
          />
        )}
        {runs.value?.more && <Quiet>These are the newest {number(first_most)}.</Quiet>}
      </Panel>
      {stops && <StopMany runs={live} close={() => setStops(false)} done={() => runs.reload()} />}
    </div>
  );
}

const depth_rem = 1.2;

function Name({ row, open, turn }: { row: Row; open: boolean; turn: () => void }) {
  const count = runsOf(row).length - (row.run ? 1 : 0);
  const tag = row.run && remoteKind(row.run) !== "" ? remoteKind(row.run) : row.kind;
  return (
    <span class="tree-name" style={{ paddingLeft: `${row.depth * depth_rem}rem` }}>
      {row.run ? <a class="strong" href={address(["runs", row.run.run_id])}><Words text={row.name} /></a> : <b><Words text={row.name} /></b>}
      {tag !== "run" && <span class="tag">{tag}</span>}
      {count > 0 && <> <button type="button" class="small" aria-expanded={open} aria-label={`${open ? "Hide" : "Show"} ${plural(count, "run")} of ${row.name}`} onClick={turn}>{open ? "▾" : "▸"} {plural(count, "run")}</button></>}
    </span>
  );
}

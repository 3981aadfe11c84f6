// All runs, newest first, and a way to compare several of them.
import { useMemo, useState } from "preact/hooks";
import { call, list } from "../api/client.ts";
import { useCalm, useLoaded, useNow } from "../api/hooks.ts";
import type { Page, Run } from "../api/types.ts";
import { Panel, ProblemNote, Quiet } from "../parts/panel.tsx";
import { State } from "../parts/state.tsx";
import { Table } from "../parts/table.tsx";
import { Words } from "../parts/words.tsx";
import { address, setQuery, useRoute } from "../router.ts";
import { ago, moment } from "../text/time.ts";
import { duration, number } from "../text/units.ts";
import { useEvents } from "./cluster/events.tsx";

const first_most = 1_000;

export function Runs() {
  const { query } = useRoute();
  const now = useNow(2_000);
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
  const shown = useMemo(
    () => (runs.value?.items ?? []).filter((one) => wanted === "" || `${one.name} ${one.user} ${one.queue} ${one.run_id}`.toLowerCase().includes(wanted)),
    [runs.value, wanted],
  );
  const pick = (id: string, on: boolean) => {
    const next = new Set(picked);
    if (on) next.add(id);
    else next.delete(id);
    setPicked(next);
  };
  return (
    <div class="view">
      <h1>Runs</h1>
      <Panel title={all ? "All runs" : "Runs that live, or ended within a day"} wide aside={
        picked.size > 0 ? <a class="button primary" href={address(["compare"], { runs: [...picked].join(",") })}>Compare {picked.size}</a> : <span class="quiet">Choose runs to compare them.</span>
      }>
        <div class="tools">
          <label class="field grow"><span class="visually-hidden">Filter runs</span>
            <input type="search" placeholder="Filter: name, user, queue" value={query.get("find") ?? ""} onInput={(event) => setQuery({ find: event.currentTarget.value })} /></label>
          <label class="field"><span>State</span>
            <select value={state} onChange={(event) => setQuery({ state: event.currentTarget.value })}>
              <option value="">any</option>
              {["QUEUED", "STARTING", "RUNNING", "RECOVERING", "RESIZING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED"].map((one) => <option key={one} value={one}>{one.toLowerCase()}</option>)}
            </select></label>
          <label class="check"><input type="checkbox" checked={all} onChange={(event) => setQuery({ all: event.currentTarget.checked ? "1" : "" })} /> older ones too</label>
        </div>
        {runs.problem && <ProblemNote problem={runs.problem} />}
        {!runs.value && !runs.problem && <Quiet>Loading.</Quiet>}
        {runs.value && (
          <Table label="Runs, newest first" items={shown} keyOf={(one) => one.run_id} height={600}
            empty={runs.value.items.length === 0 ? "There is no run. To submit one: rtrain submit job.yaml" : "No run fits the filter."}
            columns={[
              { name: "Choose", cell: (one) => <input type="checkbox" aria-label={`Choose ${one.name}`} checked={picked.has(one.run_id)} onChange={(event) => pick(one.run_id, event.currentTarget.checked)} />, width: 0.5 },
              { name: "Run", cell: (one) => <a class="strong" href={address(["runs", one.run_id])}><Words text={one.name} /></a>, sort: (one) => one.name, width: 2 },
              { name: "State", cell: (one) => <State state={one.state} title={one.reason_brief} />, sort: (one) => one.state, width: 1.2 },
              { name: "User", cell: (one) => one.user, sort: (one) => one.user },
              { name: "Queue", cell: (one) => one.queue, sort: (one) => one.queue },
              { name: "Workers", number: true, cell: (one) => one.workers, sort: (one) => one.workers, width: 0.8 },
              { name: "Attempts", number: true, cell: (one) => one.attempts, sort: (one) => one.attempts, width: 0.8 },
              { name: "Reports", number: true, cell: (one) => (one.last_report ? number(one.last_report.index) : ""), sort: (one) => one.last_report?.index ?? -1, width: 0.8 },
              { name: "Took", number: true, cell: (one) => tookOf(one, now) },
              { name: "Submitted", number: true, cell: (one) => ago(one.submitted, now), sort: (one) => moment(one.submitted) ?? 0, width: 1.2 },
            ]}
          />
        )}
        {runs.value?.more && <Quiet>These are the newest {number(first_most)}.</Quiet>}
      </Panel>
    </div>
  );
}

function tookOf(run: Run, now: number): string {
  const started = moment(run.started);
  return started === null ? "" : duration((moment(run.ended) ?? now) - started);
}

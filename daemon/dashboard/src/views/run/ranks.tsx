// Each rank: where it runs, what it uses, and how long it takes for a report beside the others.
import { useEffect, useState } from "preact/hooks";
import { useRead } from "../../api/hooks.ts";
import type { Page, RankFacts, WorkerRecord } from "../../api/types.ts";
import { HeatMap } from "../../parts/heatmap.tsx";
import { Panel, Quiet } from "../../parts/panel.tsx";
import { State } from "../../parts/state.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { noIntervals, straggler, withSample } from "../../data/intervals.ts";
import { address } from "../../router.ts";
import { bytes, duration, percent } from "../../text/units.ts";
import type { Shown } from "./run.tsx";

const sample_ms = 2_000;

interface Row {
  worker: WorkerRecord;
  facts: RankFacts | undefined;
  cpus: number | null; // processors in use
  waits: number | null; // share of the time in which it waited for data
}

// What each rank used between two looks.
function useUse(facts: RankFacts[] | undefined) {
  const [use, set] = useState<{ at: number; before: Map<number, RankFacts>; cpus: Map<number, number>; waits: Map<number, number> }>({
    at: 0, before: new Map(), cpus: new Map(), waits: new Map(),
  });
  useEffect(() => {
    if (!facts) return;
    const now = Date.now();
    set((last) => {
      const passed = (now - last.at) / 1000;
      const cpus = new Map(last.cpus);
      const waits = new Map(last.waits);
      for (const one of facts) {
        const before = last.before.get(one.rank);
        if (!before || before.attempt !== one.attempt || passed > 60) continue;
        if (one.cpu_seconds !== null && before.cpu_seconds !== null) cpus.set(one.rank, Math.max(0, (one.cpu_seconds - before.cpu_seconds) / passed));
        if (one.data_wait_seconds !== null && before.data_wait_seconds !== null) waits.set(one.rank, Math.max(0, Math.min(1, (one.data_wait_seconds - before.data_wait_seconds) / passed)));
      }
      return { at: now, before: new Map(facts.map((one) => [one.rank, one])), cpus, waits };
    });
  }, [facts]);
  return use;
}

export function Ranks({ run, attempts }: Shown) {
  const attempt = attempts.at(-1);
  const live = useRead<Page<RankFacts>>(`/v1/runs/${encodeURIComponent(run.run_id)}/ranks`, sample_ms);
  const [seen, setSeen] = useState(noIntervals());
  const facts = live.value?.items;
  useEffect(() => {
    if (facts && facts.length > 0) setSeen((before) => withSample(before, Date.now(), facts));
  }, [facts]);
  const use = useUse(facts);
  if (!attempt) return <Panel title="Ranks" wide><Quiet>No attempt has begun.</Quiet></Panel>;
  const of = new Map(facts?.filter((one) => one.attempt === attempt.number).map((one) => [one.rank, one]));
  const rows: Row[] = attempt.workers.map((worker) => ({
    worker, facts: of.get(worker.rank), cpus: use.cpus.get(worker.rank) ?? null, waits: use.waits.get(worker.rank) ?? null,
  }));
  const slow = straggler(seen);
  return (
    <>
      {live.problem?.status === 404 && <Quiet>This head does not tell memory, processors, data wait and report intervals of ranks.</Quiet>}
      {facts && facts.length > 0 && (
        <Panel title="Time for a report, by rank" wide aside={<span class="quiet">since this view was opened</span>}>
          {slow && <p class="note wait">Rank {slow.rank} on {attempt.workers[slow.rank]?.node ?? "an unknown node"} takes {percent(slow.slower - 1)} longer than the median rank.</p>}
          <HeatMap seen={seen} ranks={attempt.workers.map((one) => one.rank)} />
        </Panel>
      )}
      <Panel title={`Ranks of attempt ${attempt.number}`} wide>
        <Table label="Ranks" items={rows} keyOf={(one) => one.worker.rank} empty="There is no rank." columns={columnsFor(run.run_id, attempt.number, rows)} />
      </Panel>
    </>
  );
}

function columnsFor(run: string, attempt: number, rows: Row[]): Column<Row>[] {
  const told = (value: (row: Row) => unknown) => rows.some((row) => value(row) !== null && value(row) !== undefined);
  const columns: Column<Row>[] = [
    { name: "Rank", number: true, sort: (row) => row.worker.rank, width: 0.6, cell: (row) => <a href={address(["runs", run, "logs"], { attempt: String(attempt), rank: String(row.worker.rank) })}>{row.worker.rank}</a> },
    { name: "State", cell: (row) => <State state={row.worker.state.toUpperCase()} title={row.worker.cause} />, sort: (row) => row.worker.state },
    { name: "Node", cell: (row) => <a href={address(["nodes", row.worker.node])}>{row.worker.node}</a>, sort: (row) => row.worker.node, width: 1.3 },
  ];
  if (rows.some((row) => row.worker.gpus.length > 0)) columns.push({ name: "GPUs", cell: (row) => row.worker.gpus.join(", ") });
  if (told((row) => row.facts?.interval_ms)) columns.push({ name: "Last report took", number: true, cell: (row) => (row.facts?.interval_ms ? duration(row.facts.interval_ms) : ""), sort: (row) => row.facts?.interval_ms ?? 0 });
  if (told((row) => row.facts?.memory_bytes)) columns.push({ name: "Memory", number: true, cell: (row) => (row.facts?.memory_bytes ? bytes(row.facts.memory_bytes) : ""), sort: (row) => row.facts?.memory_bytes ?? 0 });
  if (told((row) => row.cpus)) columns.push({ name: "CPUs in use", number: true, cell: (row) => row.cpus?.toFixed(2) ?? "", sort: (row) => row.cpus ?? 0 });
  if (told((row) => row.waits)) columns.push({ name: "Waits for data", number: true, cell: (row) => (row.waits === null ? "" : percent(row.waits)), sort: (row) => row.waits ?? 0 });
  if (told((row) => row.worker.exit_code ?? row.worker.signal)) columns.push({ name: "Ended with", cell: (row) => (row.worker.signal ? `signal ${row.worker.signal}` : row.worker.exit_code === null ? "" : `exit code ${row.worker.exit_code}`) });
  if (rows.some((row) => row.worker.cause !== "")) columns.push({ name: "Cause", cell: (row) => <span title={row.worker.cause}>{row.worker.cause.split("\n")[0]}</span>, width: 2.5 });
  return columns;
}

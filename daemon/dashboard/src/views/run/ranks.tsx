// Each rank: its node, its present and past use, and its time per report in relation to the others.
import { useMemo } from "preact/hooks";
import { useOwnTimes, useRankFacts } from "../../api/rank_facts.ts";
import type { RankFacts, WorkerRecord } from "../../api/types.ts";
import { HeatMap } from "../../parts/heatmap.tsx";
import { Panel, ProblemNote, Quiet } from "../../parts/panel.tsx";
import { RankChoice } from "../../parts/rank_choice.tsx";
import { State } from "../../parts/state.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Words } from "../../parts/words.tsx";
import { straggler } from "../../data/intervals.ts";
import { spansOf } from "../../data/series.ts";
import { address, setQuery, useRoute } from "../../router.ts";
import { bytes, duration, percent } from "../../text/units.ts";
import { stretchOf, Usage } from "../usage.tsx";
import type { Shown } from "./shown.ts";

interface Row {
  worker: WorkerRecord;
  facts: RankFacts | undefined;
  cpus: number | null;  // number of processors in use
  waits: number | null;  // fraction of the time in which the rank waited for data
}

export function Ranks({ run, attempts }: Shown) {
  const attempt = attempts.at(-1);
  const { query } = useRoute();
  const live = useRankFacts(run.run_id);
  const stretch = stretchOf(query.get("last"));
  const times = useOwnTimes(run.run_id, stretch.ms);
  const { facts, use } = live;
  const seen = times.value;
  const ranks = useMemo(() => attempt?.workers.map((worker) => worker.rank) ?? [], [attempt]);
  const slow = useMemo(() => (seen ? straggler(seen) : null), [seen]);
  const spans = useMemo(() => spansOf([], attempts, "time", Date.now()), [attempts]);
  if (!attempt) return <Panel title="Ranks" wide><Quiet>No attempt has begun.</Quiet></Panel>;
  const of = new Map(facts?.filter((facts_of_rank) => facts_of_rank.attempt === attempt.number).map((facts_of_rank) => [facts_of_rank.rank, facts_of_rank]));
  const rows: Row[] = attempt.workers.map((worker) => ({
    worker, facts: of.get(worker.rank), cpus: use.cpus.get(worker.rank) ?? null, waits: use.waits.get(worker.rank) ?? null,
  }));
  const chosen = query.get("rank") ?? "0";
  const choose = (rank: string) => setQuery({ rank });
  return (
    <>
      {live.problem?.status === 404 && <Quiet>This head does not tell memory, processors, data wait and report intervals of ranks.</Quiet>}
      {times.problem && times.problem.status !== 404 && <ProblemNote problem={times.problem} />}
      {seen && seen.times.length > 0 && (
        <Panel title="Own time for a report, by rank" wide aside={<span class="quiet">the last {stretch.word}, without waits for other ranks</span>}>
          {slow && <p class="note wait">Rank {slow.rank} on {attempt.workers[slow.rank]?.node ?? "an unknown node"} takes {percent(slow.slower - 1)} longer than the median rank. The others wait for it.</p>}
          <HeatMap seen={seen} ranks={ranks} pick={(rank) => choose(String(rank))} />
        </Panel>
      )}
      <Panel title={`Ranks of attempt ${attempt.number}`} wide>
        <Table label="Ranks" items={rows} keyOf={(row) => row.worker.rank} empty="There is no rank." columns={columnsFor(run.run_id, attempt.number, rows)} />
      </Panel>
      <Usage path={`/v1/runs/${encodeURIComponent(run.run_id)}/ranks/${encodeURIComponent(chosen)}`} title={`What rank ${chosen} used`} spans={spans}
        aside={<RankChoice value={chosen} world={Math.max(1, ...attempts.map((listed_attempt) => listed_attempt.world_size))} onChange={choose} />} />
    </>
  );
}

// A column of values that some nodes report. It is left out if no rank has a value.
function factColumn(rows: Row[], name: string, value: (row: Row) => number | null | undefined, text: (value: number) => string): Column<Row>[] {
  const known = (row: Row) => typeof value(row) === "number";
  if (!rows.some(known)) return [];
  return [{ name, number: true, cell: (row) => (known(row) ? text(value(row)!) : ""), sort: (row) => value(row) ?? -1 }];
}

function columnsFor(run: string, attempt: number, rows: Row[]): Column<Row>[] {
  return [
    { name: "Rank", number: true, sort: (row) => row.worker.rank, width: 0.6, cell: (row) => <a href={address(["runs", run, "logs"], { attempt: String(attempt), rank: String(row.worker.rank) })}>{row.worker.rank}</a> },
    { name: "State", cell: (row) => <State state={row.worker.state.toUpperCase()} title={row.worker.cause} />, sort: (row) => row.worker.state },
    { name: "Node", cell: (row) => <a href={address(["nodes", row.worker.node])}><Words text={row.worker.node} /></a>, sort: (row) => row.worker.node, width: 1.3 },
    ...(rows.some((row) => row.worker.gpus.length > 0) ? [{ name: "GPUs", cell: (row: Row) => row.worker.gpus.join(", ") }] : []),
    ...factColumn(rows, "GPUs busy", (row) => row.facts?.gpu_utilization_ratio, percent),
    ...factColumn(rows, "GPU memory", (row) => row.facts?.gpu_memory_bytes, bytes),
    ...factColumn(rows, "Last report took", (row) => row.facts?.interval_ms, duration),
    ...factColumn(rows, "Memory", (row) => row.facts?.memory_bytes, bytes),
    ...factColumn(rows, "CPUs in use", (row) => row.cpus, (cpus) => cpus.toFixed(2)),
    ...factColumn(rows, "Waits for data", (row) => row.waits, percent),
    ...endColumns(rows),
  ];
}

function endColumns(rows: Row[]): Column<Row>[] {
  const ended = (row: Row) => (row.worker.signal ? `signal ${row.worker.signal}` : row.worker.exit_code === null ? "" : `exit code ${row.worker.exit_code}`);
  return [
    ...(rows.some((row) => ended(row) !== "") ? [{ name: "Ended with", cell: ended }] : []),
    ...(rows.some((row) => row.worker.cause !== "") ? [{ name: "Cause", cell: (row: Row) => <span title={row.worker.cause}><Words text={row.worker.cause.split("\n")[0] ?? ""} /></span>, width: 2.5 }] : []),
  ];
}

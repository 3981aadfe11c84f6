// The columns of the table of runs, and the choice of those that are shown.
import { Bar } from "../../parts/bar.tsx";
import { State } from "../../parts/state.tsx";
import type { Column } from "../../parts/table.tsx";
import { Words } from "../../parts/words.tsx";
import { progressOf } from "../../data/progress.ts";
import { countsOf, gpusOf, ownLabels, type Row } from "../../data/run_rows.ts";
import { setQuery } from "../../router.ts";
import { ago, moment } from "../../text/time.ts";
import { duration, number } from "../../text/units.ts";
import type { Run } from "../../api/types.ts";

interface Choice {
  id: string;
  name: string;
  column: (now: number, metric: string) => Omit<Column<Row>, "name">;
}

// A cell of the row's own run. A group without a run has none.
const own = (cell: (run: Run) => preact.ComponentChildren) => (row: Row) => (row.run ? cell(row.run) : "");
const by = (value: (run: Run) => number | string) => (row: Row) => {
  const run = row.run ?? row.runs[0];
  return run ? value(run) : "";
};
const progress = (run: Run) => (run.state === "SUCCEEDED" ? { ratio: 1, key: "", value: 0, target: 0 } : progressOf(run, []));
const metricOf = (run: Run, key: string) => {
  const value = run.last_report?.metrics?.[key];
  return typeof value === "number" ? value : null;
};
const took = (run: Run, now: number) => {
  const started = moment(run.started);
  return started === null ? null : (moment(run.ended) ?? now) - started;
};

const choices: Choice[] = [
  { id: "state", name: "State", column: () => ({ cell: (row) => (row.run ? <State state={row.run.state} title={row.run.reason_brief} /> : <Counts row={row} />), sort: by((run) => run.state), width: 1.2 }) },
  { id: "reason", name: "Reason", column: () => ({ cell: own((run) => <span title={run.reason_brief}><Words text={run.reason_brief} /></span>), sort: by((run) => run.reason_brief), width: 2.4 }) },
  { id: "progress", name: "Progress", column: () => ({ cell: own((run) => {
    const progress_of_run = progress(run);
    return progress_of_run ? <Bar ratio={progress_of_run.ratio} /> : "";
  }), sort: by((run) => progress(run)?.ratio ?? -1), width: 1.2 }) },
  { id: "metric", name: "Metric", column: (_, metric) => ({ number: true, cell: own((run) => (metricOf(run, metric) === null ? "" : number(metricOf(run, metric)))), sort: by((run) => metricOf(run, metric) ?? -Infinity) }) },
  { id: "user", name: "User", column: () => ({ cell: (row) => (row.run ?? row.runs[0])?.user ?? "", sort: by((run) => run.user) }) },
  { id: "queue", name: "Queue", column: () => ({ cell: own((run) => run.queue), sort: by((run) => run.queue) }) },
  { id: "priority", name: "Priority", column: () => ({ number: true, cell: own((run) => run.priority), sort: by((run) => run.priority), width: 0.8 }) },
  { id: "workers", name: "Workers", column: () => ({ number: true, cell: own((run) => run.workers), sort: by((run) => run.workers), width: 0.8 }) },
  { id: "gpus", name: "GPUs", column: () => ({ number: true, cell: own((run) => gpusOf(run)), sort: by(gpusOf), width: 0.7 }) },
  { id: "attempts", name: "Attempts", column: () => ({ number: true, cell: own((run) => run.attempts), sort: by((run) => run.attempts), width: 0.8 }) },
  { id: "reports", name: "Reports", column: () => ({ number: true, cell: own((run) => (run.last_report ? number(run.last_report.index) : "")), sort: by((run) => run.last_report?.index ?? -1), width: 0.8 }) },
  { id: "labels", name: "Labels", column: () => ({ cell: own(ownLabels), sort: by(ownLabels), width: 1.6 }) },
  { id: "nodes", name: "Nodes", column: () => ({ cell: own((run) => run.nodes.join(", ")), sort: by((run) => run.nodes[0] ?? ""), width: 1.4 }) },
  { id: "took", name: "Took", column: (now) => ({ number: true, cell: own((run) => {
    const ms = took(run, now);
    return ms === null ? "" : duration(ms);
  }), sort: by((run) => took(run, now) ?? -1) }) },
  { id: "submitted", name: "Submitted", column: (now) => ({ number: true, cell: own((run) => ago(run.submitted, now)), sort: by((run) => moment(run.submitted) ?? 0), width: 1.2 }) },
];

const first_shown = ["state", "user", "queue", "workers", "attempts", "reports", "took", "submitted"];
const stored = "runs-columns";

function storedColumns(): string | null {
  try {
    return localStorage.getItem(stored);
  } catch {
    return null;
  }
}

// The address names the columns, so that a link shows the same table. Without it the reader's last choice holds.
export function shownColumns(query: URLSearchParams): string[] {
  const text = query.get("columns") ?? storedColumns();
  return text === null ? first_shown : choices.map((choice) => choice.id).filter((id) => text.split(",").includes(id));
}

export function columnsFor(shown: readonly string[], now: number, metric: string): Column<Row>[] {
  return choices.filter((choice) => shown.includes(choice.id)).map((choice) => ({ name: choice.id === "metric" ? metric || choice.name : choice.name, ...choice.column(now, metric) }));
}

export function ColumnChoice({ shown, metrics, metric }: { shown: readonly string[]; metrics: readonly string[]; metric: string }) {
  const change = (id: string, on: boolean) => {
    const columns = choices.map((choice) => choice.id).filter((chosen_id) => (chosen_id === id ? on : shown.includes(chosen_id))).join(",") || "none";
    try {
      localStorage.setItem(stored, columns);
    } catch {
      // The address keeps the choice.
    }
    setQuery({ columns });
  };
  return (
    <>
      <details class="menu">
        <summary class="button">Columns</summary>
        <div class="menu-box">
          {choices.map((choice) => (
            <label key={choice.id} class="check"><input type="checkbox" checked={shown.includes(choice.id)} onChange={(event) => change(choice.id, event.currentTarget.checked)} /> {choice.name}</label>
          ))}
        </div>
      </details>
      {shown.includes("metric") && (
        <label class="field"><span>Metric</span>
          <select value={metric} onChange={(event) => setQuery({ metric: event.currentTarget.value })}>
            {metrics.map((key) => <option key={key} value={key}>{key}</option>)}
          </select></label>
      )}
    </>
  );
}

function Counts({ row }: { row: Row }) {
  return <span class="counts">{countsOf(row.runs).map(([state, count]) => <span key={state}>{count} <State state={state} /></span>)}</span>;
}

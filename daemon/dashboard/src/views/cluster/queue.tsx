// The waiting runs, and what the queues hold.
import { useState } from "preact/hooks";
import { useRead, useSession } from "../../api/hooks.ts";
import type { Page, QueueRecord, Waiting } from "../../api/types.ts";
import { isAdmin } from "../../data/rights.ts";
import { Bar } from "../../parts/bar.tsx";
import { Panel, Quiet } from "../../parts/panel.tsx";
import { Table } from "../../parts/table.tsx";
import { Words } from "../../parts/words.tsx";
import { address } from "../../router.ts";
import { bytes, duration } from "../../text/units.ts";
import { QueueRules, RemoveQueue } from "./queue_rules.tsx";

export function Queue({ items }: { items: Waiting[] }) {
  return (
    <Table label="Waiting runs, in their order" items={items} keyOf={(run) => run.run_id} empty="No run waits."
      columns={[
        { name: "Place", number: true, cell: (run) => run.position ?? "held back", width: 0.6 },
        { name: "Run", cell: (run) => <a href={address(["runs", run.run_id])}><Words text={run.name} /></a>, width: 1.4 },
        { name: "Queue", cell: (run) => run.queue },
        { name: "Needs", cell: (run) => run.needs, width: 1.2 },
        { name: "Waits", number: true, cell: (run) => duration(run.waiting_ms), sort: (run) => run.waiting_ms },
        { name: "Expected start", number: true, cell: (run) => (run.starts_in_ms === null ? "unknown" : `in ${duration(run.starts_in_ms)}`) },
        { name: "Why", cell: (run) => <span title={run.why}><Words text={run.why} /></span>, width: 2.4 },
      ]}
    />
  );
}

const amount = (name: string, value: string) => (name === "memory" ? bytes(Number(value)) : value);

function Use({ queue }: { queue: QueueRecord }) {
  const names = [...new Set([...Object.keys(queue.quota), ...Object.keys(queue.in_use)])];
  if (names.length === 0) return <span class="quiet">nothing</span>;
  return (
    <ul class="plain-list">
      {names.map((name) => {
        const used = queue.in_use[name] ?? "0";
        const quota = queue.quota[name];
        return (
          <li key={name}>
            {quota === undefined ? (
              <>{name} {amount(name, used)}, no limit</>
            ) : (
              <Bar ratio={Number(quota) > 0 ? Number(used) / Number(quota) : 0} text={`${name} ${amount(name, used)} of ${amount(name, quota)}`}
                tone={Number(used) > Number(quota) ? "wait" : ""} />
            )}
          </li>
        );
      })}
    </ul>
  );
}

const hours = (number: number) => String(Math.round(number * 100) / 100);

function Budgets({ queue }: { queue: QueueRecord }) {
  if (queue.budgets.length === 0) return <span class="quiet">{queue.user_gpu_hours === null ? "none" : `${queue.user_gpu_hours} for each user`}</span>;
  return (
    <ul class="plain-list">
      {queue.budgets.map((budget) => (
        <li key={budget.user ?? ""}>
          <Bar ratio={budget.gpu_hours > 0 ? budget.used / budget.gpu_hours : 1} tone={budget.used_up ? "wait" : ""}
            text={`${budget.user ?? "all"} ${hours(budget.used)} of ${hours(budget.gpu_hours)} in ${queue.budget_window}`} />
          {budget.used_up && budget.frees_in_ms !== null && <span class="quiet"> the next in {duration(budget.frees_in_ms)}</span>}
        </li>
      ))}
    </ul>
  );
}

export function Queues() {
  const admin = isAdmin(useSession());
  const [changed, setChanged] = useState<QueueRecord | "new" | null>(null);
  const [removed, setRemoved] = useState<QueueRecord | null>(null);
  const queues = useRead<Page<QueueRecord>>("/v1/queues", 10_000);
  if (queues.problem?.status === 404) return <Panel title="Queues"><Quiet>This head does not tell its queues' shares and quotas.</Quiet></Panel>;
  if (!queues.value) return null;
  const budgets = queues.value.items.some((queue) => queue.gpu_hours !== null || queue.user_gpu_hours !== null || queue.budgets.length > 0);
  const shares = queues.value.items.reduce((sum, queue) => sum + queue.share, 0);
  return (
    <Panel title="Queues" aside={admin && <button type="button" class="small" onClick={() => setChanged("new")}>New queue</button>}>
      <Table label="Queues" items={queues.value.items} keyOf={(queue) => queue.name} empty="There is no queue."
        columns={[
          { name: "Queue", cell: (queue) => <>{queue.name}{queue.parent && <span class="quiet"> below {queue.parent}</span>}</> },
          { name: "Share", number: true, cell: (queue) => <span title={`${queue.share} of ${shares} in all`}>{queue.share}</span> },
          { name: "Running", number: true, cell: (queue) => queue.running },
          { name: "Waiting", number: true, cell: (queue) => queue.waiting },
          { name: "Allocated, and quota", cell: (queue) => <Use queue={queue} /> },
          ...(budgets ? [{ name: "GPU hours, and budget", cell: (queue: QueueRecord) => <Budgets queue={queue} /> }] : []),
          ...(admin ? [{ name: "Change", cell: (queue: QueueRecord) => (
            <span class="tools">
              <button type="button" class="small" aria-label={`Change queue ${queue.name}`} onClick={() => setChanged(queue)}>Change</button>
              <button type="button" class="small" aria-label={`Remove queue ${queue.name}`} onClick={() => setRemoved(queue)}>Remove</button>
            </span>
          ) }] : []),
        ]}
      />
      {changed && <QueueRules queue={changed === "new" ? null : changed} close={() => setChanged(null)} done={queues.reload} />}
      {removed && <RemoveQueue queue={removed} close={() => setRemoved(null)} done={queues.reload} />}
    </Panel>
  );
}

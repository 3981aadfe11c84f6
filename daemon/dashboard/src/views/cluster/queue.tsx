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
    <Table label="Waiting runs, in their order" items={items} keyOf={(one) => one.run_id} empty="No run waits."
      columns={[
        { name: "Place", number: true, cell: (one) => one.position ?? "held back", width: 0.6 },
        { name: "Run", cell: (one) => <a href={address(["runs", one.run_id])}><Words text={one.name} /></a>, width: 1.4 },
        { name: "Queue", cell: (one) => one.queue },
        { name: "Needs", cell: (one) => one.needs, width: 1.2 },
        { name: "Waits", number: true, cell: (one) => duration(one.waiting_ms), sort: (one) => one.waiting_ms },
        { name: "Expected start", number: true, cell: (one) => (one.starts_in_ms === null ? "unknown" : `in ${duration(one.starts_in_ms)}`) },
        { name: "Why", cell: (one) => <span title={one.why}><Words text={one.why} /></span>, width: 2.4 },
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
      {queue.budgets.map((one) => (
        <li key={one.user ?? ""}>
          <Bar ratio={one.gpu_hours > 0 ? one.used / one.gpu_hours : 1} tone={one.used_up ? "wait" : ""}
            text={`${one.user ?? "all"} ${hours(one.used)} of ${hours(one.gpu_hours)} in ${queue.budget_window}`} />
          {one.used_up && one.frees_in_ms !== null && <span class="quiet"> the next in {duration(one.frees_in_ms)}</span>}
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
  const budgets = queues.value.items.some((one) => one.gpu_hours !== null || one.user_gpu_hours !== null || one.budgets.length > 0);
  const shares = queues.value.items.reduce((sum, one) => sum + one.share, 0);
  return (
    <Panel title="Queues" aside={admin && <button type="button" class="small" onClick={() => setChanged("new")}>New queue</button>}>
      <Table label="Queues" items={queues.value.items} keyOf={(one) => one.name} empty="There is no queue."
        columns={[
          { name: "Queue", cell: (one) => <>{one.name}{one.parent && <span class="quiet"> below {one.parent}</span>}</> },
          { name: "Share", number: true, cell: (one) => <span title={`${one.share} of ${shares} in all`}>{one.share}</span> },
          { name: "Running", number: true, cell: (one) => one.running },
          { name: "Waiting", number: true, cell: (one) => one.waiting },
          { name: "Allocated, and quota", cell: (one) => <Use queue={one} /> },
          ...(budgets ? [{ name: "GPU hours, and budget", cell: (one: QueueRecord) => <Budgets queue={one} /> }] : []),
          ...(admin ? [{ name: "Change", cell: (one: QueueRecord) => (
            <span class="tools">
              <button type="button" class="small" aria-label={`Change queue ${one.name}`} onClick={() => setChanged(one)}>Change</button>
              <button type="button" class="small" aria-label={`Remove queue ${one.name}`} onClick={() => setRemoved(one)}>Remove</button>
            </span>
          ) }] : []),
        ]}
      />
      {changed && <QueueRules queue={changed === "new" ? null : changed} close={() => setChanged(null)} done={queues.reload} />}
      {removed && <RemoveQueue queue={removed} close={() => setRemoved(null)} done={queues.reload} />}
    </Panel>
  );
}

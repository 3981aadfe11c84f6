// The cluster at a glance: its nodes, their holders, the queue, the last events.
import { list, call } from "../../api/client.ts";
import { useCalm, useLoaded, useRead } from "../../api/hooks.ts";
import type { NodeRecord, Status } from "../../api/types.ts";
import { Bar } from "../../parts/bar.tsx";
import { Panel, ProblemNote, Quiet } from "../../parts/panel.tsx";
import { State } from "../../parts/state.tsx";
import { plural } from "../../text/units.ts";
import { Usage } from "../usage.tsx";
import { Events, useEvents } from "./events.tsx";
import { Health } from "./health.tsx";
import { Nodes } from "./nodes.tsx";
import { Queue, Queues } from "./queue.tsx";
import { RunsOnNodes } from "./timeline.tsx";

// Nodes of a large cluster are read less often, because the answer grows with their number.
export function pauseFor(nodes: number): number {
  return nodes <= 200 ? 3_000 : 10_000;
}

function Counts({ counts, what }: { counts: Record<string, number>; what: string }) {
  const some = Object.entries(counts).filter(([, count]) => count > 0);
  if (some.length === 0) return <Quiet>No {what}.</Quiet>;
  return (
    <ul class="counts">
      {some.map(([state, count]) => (
        <li key={state}><b>{count.toLocaleString("en-US")}</b> <State state={state} /></li>
      ))}
    </ul>
  );
}

function Tiles({ status }: { status: Status }) {
  const { gpus, cpus } = status;
  return (
    <div class="tiles">
      {gpus.total > 0 && (
        <div class="tile">
          <h2>GPUs allocated</h2>
          <p class="big">{gpus.allocated.toLocaleString("en-US")} <small>of {gpus.total.toLocaleString("en-US")}</small></p>
          <Bar ratio={gpus.allocated / gpus.total} />
        </div>
      )}
      <div class="tile">
        <h2>CPUs allocated</h2>
        <p class="big">{Number(cpus.allocated).toLocaleString("en-US")} <small>of {Number(cpus.total).toLocaleString("en-US")}</small></p>
        <Bar ratio={Number(cpus.total) > 0 ? Number(cpus.allocated) / Number(cpus.total) : 0} />
      </div>
      <div class="tile">
        <h2>Nodes</h2>
        <p class="big">{Object.values(status.nodes).reduce((sum, count) => sum + count, 0).toLocaleString("en-US")}</p>
        <Counts counts={status.nodes} what="nodes" />
      </div>
      <div class="tile">
        <h2>Runs</h2>
        <p class="big">{Object.values(status.runs).reduce((sum, count) => sum + count, 0).toLocaleString("en-US")}</p>
        <Counts counts={status.runs} what="runs" />
      </div>
    </div>
  );
}

export function Cluster() {
  const status = useRead<Status>("/v1/status", 5_000);
  const count = Object.values(status.value?.nodes ?? {}).reduce((sum, count) => sum + count, 0);
  const nodes = useLoaded((signal) => list<NodeRecord>("/v1/nodes", signal), [], pauseFor(count));
  const queue = useLoaded((signal) => call<import("../../api/types.ts").Page<import("../../api/types.ts").Waiting>>("/v1/queue?limit=500", { signal }), [], 10_000);
  const changed = useCalm(() => {
    status.reload();
    queue.reload();
    if (count <= 200) nodes.reload();
  }, 1_000);
  const events = useEvents({ onNew: changed });
  return (
    <div class="view">
      <h1>{status.value ? status.value.name : "Cluster"}</h1>
      {status.problem && <ProblemNote problem={status.problem} />}
      {status.value?.storage_warning && <div class="note wait" role="status">{status.value.storage_warning}</div>}
      {status.value && <Tiles status={status.value} />}
      <Panel title="Nodes" aside={nodes.value && <span class="quiet">{plural(nodes.value.length, "node")}</span>}>
        {nodes.problem && <ProblemNote problem={nodes.problem} />}
        {nodes.value ? <Nodes nodes={nodes.value} /> : !nodes.problem && <Quiet>Loading.</Quiet>}
      </Panel>
      <Panel title="Queue" wide aside={queue.value && <span class="quiet">{plural(queue.value.items.length, "run")}{queue.value.next_cursor ? " and more" : ""}</span>}>
        {queue.problem && <ProblemNote problem={queue.problem} />}
        {queue.value && <Queue items={queue.value.items} />}
      </Panel>
      {nodes.value && <RunsOnNodes nodes={nodes.value} />}
      <Usage path="/v1/status" title="Use over time" long />
      <div class="two">
        <Queues />
        {status.value && <Health status={status.value} />}
        <Panel title="Events">
          <Events events={events} />
        </Panel>
      </div>
    </div>
  );
}

// One node with all facts that the head has about it.
import { useRead } from "../../api/hooks.ts";
import type { NodeRecord } from "../../api/types.ts";
import { Fact, Panel, ProblemNote, Quiet } from "../../parts/panel.tsx";
import { State } from "../../parts/state.tsx";
import { Table } from "../../parts/table.tsx";
import { Words } from "../../parts/words.tsx";
import { holdersOf, isHeld, stateOf } from "../../data/nodes.ts";
import { address } from "../../router.ts";
import { exact } from "../../text/time.ts";
import { bytes, duration, percent, resources } from "../../text/units.ts";
import { Usage } from "../usage.tsx";
import { NodeActions } from "./node_actions.tsx";
import { NodeCard } from "./node_card.tsx";

export function NodeView({ name }: { name: string }) {
  const read = useRead<NodeRecord>(`/v1/nodes/${encodeURIComponent(name)}`, 3_000);
  const node = read.value;
  return (
    <div class="view">
      <p class="crumbs"><a href="#/">Cluster</a></p>
      <div class="title-line"><h1><Words text={name} /></h1>{node && <State state={stateOf(node)} title={node.reason} />}</div>
      {node && <NodeActions node={node} reload={read.reload} />}
      {read.problem && <ProblemNote problem={read.problem} />}
      {!node && !read.problem && <Quiet>Loading.</Quiet>}
      {node?.reason && <div class="note wait">{node.reason}</div>}
      {node?.warnings.map((warning) => <div class="note wait" key={warning}>{warning}</div>)}
      {node && foreignText(node) && <div class="note wait">{foreignText(node)}</div>}
      {node && <NodeCard node={node} />}
      {node && node.gpus > 0 && <Panel title="GPUs"><Devices node={node} /></Panel>}
      {node && <Usage path={`/v1/nodes/${encodeURIComponent(name)}`} title="Use over time" />}
      {node && <Panel title="Facts"><Facts node={node} /></Panel>}
    </div>
  );
}

// Returns which GPUs are used by processes that belong to no run; empty if none are known.
export function foreignText(node: NodeRecord): string {
  const used = node.gpu_devices.filter((device) => (device.foreign_processes ?? 0) > 0);
  if (used.length === 0) return "";
  return `Processes that belong to no run compute on ${used.map((device) => `GPU ${device.index} (${device.foreign_processes})`).join(", ")}.`;
}

function Devices({ node }: { node: NodeRecord }) {
  const devices = node.gpu_devices;
  const isReported = (of: (device: (typeof devices)[number]) => unknown) => devices.some((device) => of(device) !== undefined && of(device) !== null);
  return (
    <Table label={`GPUs of ${node.node}`} items={devices} keyOf={(device) => device.index} empty="none"
      columns={[
        { name: "GPU", number: true, cell: (device) => device.index },
        { name: "Held by", cell: (device) => (holdersOf(device).length > 0 ? holdersOf(device).map((run) => <a key={run} href={address(["runs", run])}><Words text={run} /> </a>) : isHeld(device) ? "allocated" : "free") },
        ...(isReported((device) => device.utilization_ratio) ? [{ name: "Busy", number: true, cell: (device: (typeof devices)[number]) => (typeof device.utilization_ratio === "number" ? percent(device.utilization_ratio) : "") }] : []),
        ...(isReported((device) => device.memory_total) ? [{ name: "Memory", number: true, cell: (device: (typeof devices)[number]) => (device.memory_total ? `${bytes(device.memory_used ?? 0)} of ${bytes(device.memory_total)}` : "") }] : []),
        ...(isReported((device) => device.temperature_celsius) ? [{ name: "Temperature", number: true, cell: (device: (typeof devices)[number]) => (typeof device.temperature_celsius === "number" ? `${device.temperature_celsius} °C` : "") }] : []),
        ...(isReported((device) => device.power_watts) ? [{ name: "Power", number: true, cell: (device: (typeof devices)[number]) => (typeof device.power_watts === "number" ? `${Math.round(device.power_watts)} W` : "") }] : []),
        ...(isReported((device) => device.xids) ? [{ name: "Xid errors", cell: (device: (typeof devices)[number]) => Object.entries(device.xids ?? {}).map(([xid, count]) => `${xid}: ${count}`).join(", ") || "none" }] : []),
        ...(isReported((device) => device.foreign_processes) ? [{ name: "Foreign processes", number: true, cell: (device: (typeof devices)[number]) => device.foreign_processes ?? "" }] : []),
        ...(isReported((device) => device.ecc_errors) ? [{ name: "ECC errors", number: true, cell: (device: (typeof devices)[number]) => device.ecc_errors ?? "" }] : []),
      ]}
    />
  );
}

function Facts({ node }: { node: NodeRecord }) {
  return (
    <dl class="facts">
      <Fact name="Address">{node.address}:{node.port}</Fact>
      <Fact name="Resources">{resources(node.resources)}</Fact>
      <Fact name="Free">{resources(node.free)}</Fact>
      {node.gpu_model && <Fact name="GPU model">{node.gpu_model}</Fact>}
      {node.memory_total > 0 && <Fact name="Memory">{bytes(node.memory_used)} of {bytes(node.memory_total)}</Fact>}
      <Fact name="Registered">{exact(node.registered)}</Fact>
      <Fact name="Last heartbeat">{node.last_heartbeat_ms === null ? "none" : `${duration(node.last_heartbeat_ms)} ago`}</Fact>
      <Fact name="Failures of late">{node.failures}</Fact>
      {node.version && <Fact name="Version">{node.version}</Fact>}
      {Object.entries(node.labels).map(([key, value]) => <Fact key={key} name={`Label ${key}`}>{value}</Fact>)}
      {Object.entries(node.facts).map(([key, value]) => <Fact key={`fact-${key}`} name={key}>{typeof value === "string" ? value : JSON.stringify(value)}</Fact>)}
    </dl>
  );
}

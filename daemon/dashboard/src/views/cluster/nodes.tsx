// Nodes and their GPUs: cards for a few, a map for many, a table for both.
import { useMemo, useState } from "preact/hooks";
import type { NodeRecord } from "../../api/types.ts";
import { Quiet } from "../../parts/panel.tsx";
import { State } from "../../parts/state.tsx";
import { Table } from "../../parts/table.tsx";
import { Words } from "../../parts/words.tsx";
import { gpuUse, memoryRatio, share, stateOf } from "../../data/nodes.ts";
import { address, setQuery, useRoute } from "../../router.ts";
import { bytes, bytesOf, percent } from "../../text/units.ts";
import { NodeCard } from "./node_card.tsx";
import { NodeMap } from "./node_map.tsx";

const cards_most = 36;

export function Nodes({ nodes }: { nodes: NodeRecord[] }) {
  const { query } = useRoute();
  const tabled = query.get("nodes") === "table";
  const [wanted, setWanted] = useState("");
  const shown = useMemo(() => {
    const low = wanted.toLowerCase();
    return low === "" ? nodes : nodes.filter((node) => matches(node, low));
  }, [nodes, wanted]);
  if (nodes.length === 0) return <Quiet>No node has joined. On another machine: rtrain node join HEAD --token TOKEN</Quiet>;
  return (
    <>
      <div class="tools">
        <label class="field">
          <span class="visually-hidden">Filter nodes</span>
          <input type="search" placeholder="Filter: name, state, run, label" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
        </label>
        <div class="choice" role="group" aria-label="How nodes are shown">
          <button type="button" aria-pressed={!tabled} onClick={() => setQuery({ nodes: "" })}>Map</button>
          <button type="button" aria-pressed={tabled} onClick={() => setQuery({ nodes: "table" })}>Table</button>
        </div>
      </div>
      {tabled ? <NodeTable nodes={shown} /> : shown.length > cards_most ? <NodeMap nodes={shown} /> : (
        <div class="cards">{shown.map((node) => <NodeCard key={node.node} node={node} />)}</div>
      )}
      {shown.length === 0 && !tabled && <Quiet>No node fits the filter.</Quiet>}
    </>
  );
}

function matches(node: NodeRecord, low: string): boolean {
  return [node.node, stateOf(node), node.state, node.gpu_model, ...node.runs, ...Object.entries(node.labels).map(([key, value]) => `${key}=${value}`)].some((text) =>
    text.toLowerCase().includes(low),
  );
}

const ratioText = (ratio: number | null) => (ratio === null ? "" : percent(ratio));

function gpuMemoryText(node: NodeRecord): string {
  const { memory } = gpuUse(node);
  return memory === null ? "" : bytesOf(memory.used, memory.total);
}

function NodeTable({ nodes }: { nodes: NodeRecord[] }) {
  return (
    <Table label="Nodes" items={nodes} keyOf={(node) => node.node} empty="No node fits the filter."
      columns={[
        { name: "Node", cell: (node) => <a href={address(["nodes", node.node])}><Words text={node.node} /></a>, sort: (node) => node.node, width: 1.5 },
        { name: "State", cell: (node) => <State state={stateOf(node)} title={node.reason} />, sort: (node) => stateOf(node), width: 1.3 },
        { name: "GPUs allocated", number: true, cell: (node) => (node.gpus === 0 ? "none" : `${node.gpus - Number(node.gpus_free)} of ${node.gpus}`), sort: (node) => node.gpus - Number(node.gpus_free) },
        ...(nodes.some((node) => gpuUse(node).busy !== null) ? [{ name: "GPU use", number: true, cell: (node: NodeRecord) => ratioText(gpuUse(node).busy), sort: (node: NodeRecord) => gpuUse(node).busy ?? -1 }] : []),
        ...(nodes.some((node) => gpuUse(node).memory !== null) ? [{ name: "GPU memory", number: true, cell: gpuMemoryText, sort: (node: NodeRecord) => gpuUse(node).memory?.used ?? -1, width: 1.5 }] : []),
        { name: "CPUs allocated", number: true, cell: (node) => percent(share(node, "CPU") ?? 0), sort: (node) => share(node, "CPU") ?? 0 },
        { name: "Memory", number: true, cell: (node) => (node.memory_total > 0 ? `${bytes(node.memory_used)} of ${bytes(node.memory_total)}` : "unknown"), sort: (node) => memoryRatio(node) ?? 0, width: 1.5 },
        { name: "Runs", cell: (node) => node.runs.join(", "), width: 2 },
      ]}
    />
  );
}

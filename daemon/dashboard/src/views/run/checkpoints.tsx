// The checkpoints that a run keeps: score, size, verified files, and what can be done with one.
import { useEffect } from "preact/hooks";
import { list } from "../../api/client.ts";
import { useLoaded } from "../../api/hooks.ts";
import type { Checkpoint, Run } from "../../api/types.ts";
import { Copy } from "../../parts/copy.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Panel, ProblemNote, Quiet } from "../../parts/panel.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Words } from "../../parts/words.tsx";
import { shellWord } from "../../text/shell.ts";
import { exact } from "../../text/time.ts";
import { bytes, number, plural } from "../../text/units.ts";
import { CheckpointActions } from "./checkpoint_actions.tsx";
import type { Shown } from "./shown.ts";

function scoreOf(run: Run): string {
  const name = (run.job?.["checkpoint"] as Record<string, unknown> | undefined)?.["score_attribute"];
  return typeof name === "string" ? name : "";
}

// The result of the last verification of the checkpoint's files.
function Files({ checkpoint }: { checkpoint: Checkpoint }) {
  if (!checkpoint.verified) return <span class="quiet">not verified</span>;
  const faults = checkpoint.faults ?? 0;
  return (
    <span class={`state ${faults === 0 ? "good" : "bad"}`} title={`verified ${exact(checkpoint.verified)}`}>
      <Icon name={faults === 0 ? "check" : "alert"} />
      {faults === 0 ? "intact" : `${plural(faults, "file")} damaged`}
    </span>
  );
}

export function Checkpoints({ run, owner }: Shown) {
  const read = useLoaded((signal) => (owner ? list<Checkpoint>(`/v1/runs/${encodeURIComponent(run.run_id)}/checkpoints`, signal) : Promise.resolve([])), [run.run_id, owner], 10_000);
  useEffect(() => read.reload(), [run.checkpoints, run.latest_checkpoint]);
  if (!owner) return <Panel title="Checkpoints" wide><Quiet>The run keeps {run.checkpoints}. Its checkpoints are shown to {run.user || "its user"} and to admins.</Quiet></Panel>;
  const score = scoreOf(run);
  const items = [...(read.value ?? [])].reverse();
  const best = score === "" ? null : bestOf(items, score, run);
  const columns: Column<Checkpoint>[] = [
    { name: "Checkpoint", cell: (checkpoint) => <><b><Words text={checkpoint.directory} /></b>{checkpoint.latest && <span class="tag">latest</span>}{checkpoint.directory === best && <span class="tag">best</span>}{checkpoint.deleting && <span class="tag">being deleted</span>}</>, width: 2 },
    { name: "Committed", cell: (checkpoint) => exact(checkpoint.committed), sort: (checkpoint) => checkpoint.committed ?? "" },
    { name: "Size", number: true, cell: (checkpoint) => bytes(checkpoint.bytes), sort: (checkpoint) => checkpoint.bytes },
    { name: "Ranks", number: true, cell: (checkpoint) => checkpoint.world_size },
    ...(score === "" ? [] : [{ name: `Score (${score})`, number: true, cell: (checkpoint: Checkpoint) => number(checkpoint.metrics[score]), sort: (checkpoint: Checkpoint) => checkpoint.metrics[score] ?? -Infinity }]),
    { name: "Other metrics", cell: (checkpoint) => Object.entries(checkpoint.metrics).filter(([key]) => key !== score).slice(0, 4).map(([key, value]) => `${key} ${number(value)}`).join(", "), width: 1.6 },
    { name: "Files", cell: (checkpoint) => <Files checkpoint={checkpoint} />, sort: (checkpoint) => checkpoint.verified ?? "" },
    { name: "Actions", cell: (checkpoint) => (checkpoint.deleting ? null : <CheckpointActions run={run} checkpoint={checkpoint} reload={read.reload} />), width: 1.6 },
    { name: "Go on from it", cell: (checkpoint) => <Copy text={`rtrain restore ${shellWord(`${run.name}@${checkpoint.directory}`)}`} />, width: 2.4 },
  ];
  return (
    <Panel title="Checkpoints" wide>
      {read.problem && <ProblemNote problem={read.problem} />}
      {read.value && <Table label="Checkpoints, newest first" items={items} keyOf={(checkpoint) => checkpoint.directory} empty="No checkpoint has been committed." columns={columns} />}
      {items.length > 0 && <p class="quiet">In {run.run_path}</p>}
    </Panel>
  );
}

function bestOf(items: Checkpoint[], score: string, run: Run): string | null {
  const least = (run.job?.["checkpoint"] as Record<string, unknown> | undefined)?.["score_order"] === "min";
  let best: Checkpoint | null = null;
  for (const checkpoint of items) {
    const value = checkpoint.metrics[score];
    if (typeof value !== "number") continue;
    const held = best?.metrics[score];
    if (typeof held !== "number" || (least ? value < held : value > held)) best = checkpoint;
  }
  return best?.directory ?? null;
}

// The actions of a run's user and of admins. Each change explains its effect and needs a confirmation.
import { useState } from "preact/hooks";
import { call } from "../../api/client.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { remoteKind } from "../../data/run_rows.ts";
import { address } from "../../router.ts";
import { hasEnded } from "../../text/states.ts";
import { plural } from "../../text/units.ts";
import type { Shown } from "./shown.ts";

type Asked = "" | "stop" | "checkpoint" | "resize" | "priority" | "stacks";

export function Actions({ run, owner, reload }: Shown) {
  const [asked, setAsked] = useState<Asked>("");
  if (!owner || hasEnded(run.state)) return null;
  const close = () => setAsked("");
  const trains = run.state === "RUNNING";
  const remote = remoteKind(run) !== "";  // a remote function or an actor writes no checkpoint and has one worker
  const given = { run, close, reload };
  return (
    <div class="actions">
      {trains && <button type="button" onClick={() => setAsked("stacks")}>Stacks</button>}
      {trains && !remote && <button type="button" onClick={() => setAsked("checkpoint")}>Checkpoint now</button>}
      {!remote && <button type="button" onClick={() => setAsked("resize")}>Resize</button>}
      <button type="button" onClick={() => setAsked("priority")}>Priority</button>
      <button type="button" class="danger" onClick={() => setAsked("stop")}>Stop</button>
      {asked === "stop" && <Stop {...given} />}
      {asked === "checkpoint" && <CheckpointNow {...given} />}
      {asked === "resize" && <Resize {...given} />}
      {asked === "priority" && <Priority {...given} />}
      {asked === "stacks" && <Stacks {...given} />}
    </div>
  );
}

interface Given {
  run: Shown["run"];
  close: () => void;
  reload: () => void;
}

const routeOf = (run: Shown["run"], verb: string) => `/v1/runs/${encodeURIComponent(run.run_id)}/${verb}`;

function Stop({ run, close, reload }: Given) {
  const checkpoints = run.state === "RUNNING" && remoteKind(run) === "";
  const [way, setWay] = useState<"grace" | "checkpoint" | "now">(checkpoints ? "checkpoint" : "grace");
  const [minutes, setMinutes] = useState("10");
  const act = async () => {
    const body = way === "checkpoint" ? { checkpoint: true, deadline_ms: Math.round(Number(minutes) * 60_000) } : way === "now" ? { now: true } : {};
    await call(routeOf(run, "stop"), { method: "POST", body });
    reload();
  };
  return (
    <Dialog title={`Stop ${run.name}?`} confirm="Stop the run" danger act={act} close={close}>
      <p>The run ends, and {plural(run.workers, "worker")} with it. Its checkpoints stay.</p>
      <fieldset>
        <legend>How</legend>
        {checkpoints && (
          <label><input type="radio" name="way" checked={way === "checkpoint"} onChange={() => setWay("checkpoint")} /> after its next checkpoint, at most{" "}
            <input type="number" min="0" max="10080" step="any" value={minutes} aria-label="minutes" onInput={(event) => setMinutes(event.currentTarget.value)} /> minutes from now</label>
        )}
        <label><input type="radio" name="way" checked={way === "grace"} onChange={() => setWay("grace")} /> with its grace period</label>
        <label><input type="radio" name="way" checked={way === "now"} onChange={() => setWay("now")} /> now: a checkpoint that is being stored is given up</label>
      </fieldset>
    </Dialog>
  );
}

function CheckpointNow({ run, close, reload }: Given) {
  const act = async () => {
    await call(routeOf(run, "checkpoint"), { method: "POST", body: {} });
    reload();
  };
  return (
    <Dialog title={`Request a checkpoint of ${run.name}?`} confirm="Request it" act={act} close={close}>
      <p>Its workers are asked for a checkpoint. They write it with their next report.</p>
    </Dialog>
  );
}

function Resize({ run, close, reload }: Given) {
  const [workers, setWorkers] = useState(String(run.workers));
  const act = async () => {
    await call(routeOf(run, "resize"), { method: "POST", body: { workers: Number(workers) } });
    reload();
  };
  return (
    <Dialog title={`Resize ${run.name}?`} confirm="Resize the run" act={act} close={close}>
      <p>It has {plural(run.workers, "worker")}{run.workers_min === run.workers_max ? "" : ` and may have ${run.workers_min} to ${run.workers_max}`}. The number changes at its next commit.</p>
      <label class="field"><span>Workers</span>
        <input type="number" required min="1" max="1000000" step="1" value={workers} onInput={(event) => setWorkers(event.currentTarget.value)} /></label>
    </Dialog>
  );
}

function Priority({ run, close, reload }: Given) {
  const [priority, setPriority] = useState(String(run.priority));
  const act = async () => {
    await call(routeOf(run, "priority"), { method: "POST", body: { priority: Number(priority) } });
    reload();
  };
  return (
    <Dialog title={`Change the priority of ${run.name}?`} confirm="Change the priority" act={act} close={close}>
      <p>It is {run.priority}. Waiting runs with a higher priority start first, and may preempt those with a lower one in queues that allow it. A run that trains keeps its nodes.</p>
      <label class="field"><span>Priority, 0 to 100</span>
        <input type="number" required min="0" max="100" step="1" value={priority} onInput={(event) => setPriority(event.currentTarget.value)} /></label>
    </Dialog>
  );
}

function Stacks({ run, close }: Given) {
  const act = async () => {
    const answer = await call<{ attempt: number; marker: string }>(`${routeOf(run, "stack")}?rank=all`, { method: "POST", body: {} });
    location.hash = address(["runs", run.run_id, "logs"], { attempt: String(answer.attempt), rank: "all", find: answer.marker });
  };
  return (
    <Dialog title={`Write the stacks of ${run.name}?`} confirm="Write them" act={act} close={close}>
      <p>Its Python ranks write the stacks of all their threads into their logs, and go on. The logs open behind this.</p>
    </Dialog>
  );
}

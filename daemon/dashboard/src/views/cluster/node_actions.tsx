// The actions of admins on a node: take it out of service, return it, remove it. Each explains its effect and needs a
// confirmation.
import { useState } from "preact/hooks";
import { call } from "../../api/client.ts";
import { useSession } from "../../api/hooks.ts";
import type { NodeRecord } from "../../api/types.ts";
import { isAdmin } from "../../data/rights.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { plural } from "../../text/units.ts";

interface Given {
  node: NodeRecord;
  close: () => void;
  reload: () => void;
}

const post = (node: NodeRecord, verb: string, body: unknown = {}) => call(`/v1/nodes/${encodeURIComponent(node.node)}/${verb}`, { method: "POST", body });

function RunsOn({ node }: { node: NodeRecord }) {
  if (node.runs.length === 0) return <p>No run is on it.</p>;
  return <p>{plural(node.runs.length, "run")} on it: <b>{node.runs.slice(0, 8).join(", ")}{node.runs.length > 8 && ` and ${node.runs.length - 8} more`}</b>.</p>;
}

function Drain({ node, close, reload }: Given) {
  const [reason, setReason] = useState("");
  const [minutes, setMinutes] = useState("");
  const act = async () => {
    await post(node, "drain", { reason, ...(minutes === "" ? {} : { deadline_ms: Math.round(Number(minutes) * 60_000) }) });
    reload();
  };
  return (
    <Dialog title={`Drain node ${node.node}?`} confirm={`Drain ${node.node}`} act={act} close={close}>
      <RunsOn node={node} />
      <p>Nothing new is placed on it. Its runs are asked for a checkpoint and move if there is room elsewhere; otherwise they stay until they end. With a limit they leave in any case, at the limit without a checkpoint.</p>
      <label class="field"><span>Reason</span>
        <input type="text" maxLength={300} value={reason} placeholder="kernel update" onInput={(event) => setReason(event.currentTarget.value)} /></label>
      <label class="field"><span>Limit in minutes (none: no limit)</span>
        <input type="number" min="0" max="10080" step="any" value={minutes} onInput={(event) => setMinutes(event.currentTarget.value)} /></label>
    </Dialog>
  );
}

function Quarantine({ node, close, reload }: Given) {
  const [reason, setReason] = useState("");
  const act = async () => {
    await post(node, "quarantine", { reason });
    reload();
  };
  return (
    <Dialog title={`Quarantine node ${node.node}?`} confirm={`Quarantine ${node.node}`} act={act} close={close}>
      <RunsOn node={node} />
      <p>Nothing new is placed on it until somebody returns it to service. Its runs stay and get no checkpoint request.</p>
      <label class="field"><span>Reason</span>
        <input type="text" maxLength={300} value={reason} placeholder="odd ECC errors" onInput={(event) => setReason(event.currentTarget.value)} /></label>
    </Dialog>
  );
}

function Undrain({ node, close, reload }: Given) {
  const act = async () => {
    await post(node, "undrain");
    reload();
  };
  return (
    <Dialog title={`Return node ${node.node} to service?`} confirm={`Return ${node.node} to service`} act={act} close={close}>
      <p>Runs are placed on it again. {node.state === "QUARANTINED" ? "Its quarantine ends, and its failures are forgotten: " : "It was taken out of service: "}<b>{node.reason || "no reason was given"}</b>.</p>
    </Dialog>
  );
}

function Leave({ node, close }: Given) {
  const [name, setName] = useState("");
  const act = async () => {
    await post(node, "leave");
    location.hash = "#/";
  };
  return (
    <Dialog title={`Remove node ${node.node} from the cluster?`} confirm={`Remove ${node.node}`} danger act={act} close={close}>
      <RunsOn node={node} />
      <p>Their attempts end there at once. The node's certificate is revoked: it comes back with a new join token only.</p>
      <label class="field"><span>Type its name to confirm</span>
        <input type="text" required pattern={node.node.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")} value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} /></label>
    </Dialog>
  );
}

const dialogs = { drain: Drain, quarantine: Quarantine, undrain: Undrain, leave: Leave };

export function NodeActions({ node, reload }: { node: NodeRecord; reload: () => void }) {
  const session = useSession();
  const [asked, setAsked] = useState<keyof typeof dialogs | null>(null);
  if (!isAdmin(session)) return null;
  const out = node.state === "DRAINING" || node.state === "QUARANTINED";
  const Asked = asked && dialogs[asked];
  return (
    <div class="actions">
      {!out && node.state !== "LOST" && <button type="button" onClick={() => setAsked("drain")}>Drain</button>}
      {!out && <button type="button" onClick={() => setAsked("quarantine")}>Quarantine</button>}
      {out && <button type="button" onClick={() => setAsked("undrain")}>Return to service</button>}
      <button type="button" class="danger" onClick={() => setAsked("leave")}>Remove</button>
      {Asked && <Asked node={node} reload={reload} close={() => setAsked(null)} />}
    </div>
  );
}

// A new token, for a person, for Prometheus or for nodes that join.
import { useState } from "preact/hooks";
import { call } from "../api/client.ts";
import { Dialog } from "../parts/dialog.tsx";

const day_ms = 86_400_000;
const roles = [["user", "submits runs, and acts on his own"], ["viewer", "reads the cluster and its runs"], ["admin", "everything, of every run"], ["metrics", "GET /metrics"], ["node", "lets nodes join, as often as it says"]] as const;

// `onToken` gets the token's text, which the head shows once.
export function NewToken({ close, onToken }: { close: () => void; onToken: (text: string) => void }) {
  const [role, setRole] = useState<(typeof roles)[number][0]>("user");
  const [user, setUser] = useState("");
  const [days, setDays] = useState("90");
  const [uses, setUses] = useState("1");
  const node = role === "node";
  const act = async () => {
    const of = node ? { uses: Number(uses) } : { user, expires_ms: Math.round(Number(days) * day_ms) };
    onToken((await call<{ token: string }>("/v1/tokens", { method: "POST", body: { role, ...of } })).token);
  };
  return (
    <Dialog title="Make a token?" confirm={node ? "Make a token for nodes" : `Make a token of role ${role}`} danger={role === "admin"} act={act} close={close}>
      <label class="field"><span>Role</span>
        <select value={role} onChange={(event) => setRole(event.currentTarget.value as typeof role)}>
          {roles.map(([name, what]) => <option key={name} value={name}>{name}: {what}</option>)}
        </select></label>
      {!node && <label class="field"><span>User</span>
        <input type="text" required={role !== "metrics"} pattern="[A-Za-z0-9._@+\-]+" maxLength={255} autocomplete="off" value={user} onInput={(event) => setUser(event.currentTarget.value)} /></label>}
      {!node && <label class="field"><span>Days (0: it does not expire)</span>
        <input type="number" required min="0" max="36500" step="any" value={days} onInput={(event) => setDays(event.currentTarget.value)} /></label>}
      {node && <label class="field"><span>Number of nodes</span>
        <input type="number" required min="1" max="100000" step="1" value={uses} onInput={(event) => setUses(event.currentTarget.value)} /></label>}
      <p>Whoever has it {node ? "lets a machine join this cluster, within an hour." : role === "admin" ? "may change everything here, and read the data of all users." : `acts as ${user || "its user"}.`}</p>
    </Dialog>
  );
}

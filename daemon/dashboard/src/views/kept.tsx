// For admins: what the head keeps for a user, and the limits of it.
import { useState } from "preact/hooks";
import { call } from "../api/client.ts";
import { useLoaded } from "../api/hooks.ts";
import type { KeptBytes, Quota, Token } from "../api/types.ts";
import { Bar } from "../parts/bar.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { Panel, ProblemNote, Quiet } from "../parts/panel.tsx";
import { setQuery, useRoute } from "../router.ts";
import { bytes, bytesOf } from "../text/units.ts";

const places: [keyof KeptBytes, string][] = [["memory", "Memory"], ["database", "Database"], ["files", "Files"], ["storage", "cluster:// files"]];
const mebi = 1024 * 1024;
const pathOf = (user: string) => `/v1/quotas/${encodeURIComponent(user)}`;

// `tokens`: those of all users.
export function Kept({ tokens }: { tokens: Token[] }) {
  const { query } = useRoute();
  const users = [...new Set(tokens.map((token) => token.user).filter((user) => user !== ""))].sort();
  const user = query.get("user") ?? users[0] ?? "";
  const read = useLoaded((signal) => (user === "" ? Promise.resolve(null) : call<Quota>(pathOf(user), { signal })), [user], 30_000);
  const [changes, setChanges] = useState(false);
  return (
    <Panel title="What the head keeps" aside={
      <span class="tools">
        <label class="field"><span>For user</span>
          <select value={user} onChange={(event) => setQuery({ user: event.currentTarget.value })}>
            {[...new Set([...users, ...(user === "" ? [] : [user])])].map((name) => <option key={name} value={name}>{name}</option>)}
          </select></label>
        {read.value && <button type="button" class="small" onClick={() => setChanges(true)}>Change limits</button>}
      </span>
    }>
      {read.problem && <ProblemNote problem={read.problem} />}
      {user === "" && <Quiet>There is no user yet.</Quiet>}
      {read.value && (
        <dl class="facts">
          {places.map(([place, word]) => (
            <div class="fact" key={place}>
              <dt>{word}</dt>
              <dd><Bar ratio={read.value!.used[place] / Math.max(1, read.value!.limit[place])} text={bytesOf(read.value!.used[place], read.value!.limit[place])} tone={read.value!.used[place] > 0.9 * read.value!.limit[place] ? "bad" : ""} /></dd>
            </div>
          ))}
        </dl>
      )}
      {read.value && <Quiet>{read.value.own_limit ? `${user} has limits of its own.` : "These are the limits of all users."}</Quiet>}
      {changes && read.value && <Limits quota={read.value} close={() => setChanges(false)} done={read.reload} />}
    </Panel>
  );
}

function Limits({ quota, close, done }: { quota: Quota; close: () => void; done: () => void }) {
  const [same, setSame] = useState(false);
  const [texts, setTexts] = useState<Record<string, string>>(() => Object.fromEntries(places.map(([place]) => [place, String(Math.round(quota.limit[place] / mebi))])));
  const changed = places.filter(([place]) => texts[place] !== String(Math.round(quota.limit[place] / mebi)));
  const amounts = Object.fromEntries(changed.map(([place]) => [place, Math.round(Number(texts[place]) * mebi)]));
  const act = async () => {
    if (same || changed.length > 0) await call(pathOf(quota.user), { method: "PUT", body: same ? { default: true } : amounts });
    done();
  };
  return (
    <Dialog title={`Change the limits of ${quota.user}?`} confirm={`Set the limits of ${quota.user}`} act={act} close={close}>
      {places.map(([place, word]) => (
        <label class="field" key={place}><span>{word} in MiB, of which {bytes(quota.used[place])} are used</span>
          <input type="number" required min="0" max="1073741824" step="any" disabled={same} value={texts[place]} onInput={(event) => setTexts({ ...texts, [place]: event.currentTarget.value })} /></label>
      ))}
      <label class="check"><input type="checkbox" checked={same} onChange={(event) => setSame(event.currentTarget.checked)} /> the limits that all users have</label>
      <p role="status">{same ? `${quota.user} gets the limits that all users have.` : changed.length === 0 ? "Nothing changes." : `Changes: ${changed.map(([place, word]) => `${word} from ${bytes(quota.limit[place])} to ${bytes(amounts[place]!)}`).join("; ")}.`}</p>
      <p>Beyond a limit submissions are refused, and reports and logs are not kept. Nothing that is there is removed.</p>
    </Dialog>
  );
}

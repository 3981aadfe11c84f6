// For admins: users and tokens, and the audit of changes.
import { useRef, useState } from "preact/hooks";
import { call, list, newest } from "../api/client.ts";
import { type Loaded, useLoaded, useNow, useSession } from "../api/hooks.ts";
import type { AuditRow, Token } from "../api/types.ts";
import { Copy } from "../parts/copy.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { Panel, ProblemNote, Quiet } from "../parts/panel.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Words } from "../parts/words.tsx";
import { setQuery, useRoute } from "../router.ts";
import { auditText } from "../text/audit_text.ts";
import { ago, exact, moment } from "../text/time.ts";
import { Kept } from "./kept.tsx";
import { NewToken } from "./new_token.tsx";

const audit_most = 1_000;

function stateOf(token: Token, now: number): string {
  if (token.revoked) return "revoked";
  if (token.uses_left === 0) return "used up";
  const expires = moment(token.expires);
  return expires !== null && expires <= now ? "expired" : "opens";
}

export function Access() {
  const session = useSession();
  if (session?.role !== "admin") return <div class="view"><h1>Access</h1><Quiet>Tokens and the audit are shown to admins.</Quiet></div>;
  return <OfAdmins />;
}

function OfAdmins() {
  const read = useLoaded((signal) => list<Token>("/v1/tokens", signal), [], 15_000);
  return (
    <div class="view">
      <h1>Access</h1>
      <Tokens read={read} />
      <Kept tokens={read.value ?? []} />
      <Audit />
    </div>
  );
}

function Tokens({ read }: { read: Loaded<Token[]> }) {
  const now = useNow(10_000);
  const [revokes, setRevokes] = useState<Token | null>(null);
  const [makes, setMakes] = useState(false);
  const [fresh, setFresh] = useState("");
  const [gone, setGone] = useState(false);
  const rows = (read.value ?? []).filter((token) => gone || stateOf(token, now) === "opens");
  const columns: Column<Token>[] = [
    { name: "Token", cell: (token) => <code>{token.id}</code>, sort: (token) => token.id },
    { name: "Role", cell: (token) => token.role, sort: (token) => token.role },
    { name: "User", cell: (token) => token.user || <span class="quiet">none</span>, sort: (token) => token.user },
    { name: "State", cell: (token) => stateOf(token, now), sort: (token) => stateOf(token, now) },
    { name: "Made", cell: (token) => exact(token.created), sort: (token) => token.created ?? "" },
    { name: "Expires", cell: (token) => (token.expires ? ago(token.expires, now) : "never"), sort: (token) => moment(token.expires) ?? Infinity },
    ...(rows.some((token) => token.last_used !== undefined) ? [{ name: "Last used", cell: (token: Token) => (token.last_used ? ago(token.last_used, now) : "not since the head's start"), sort: (token: Token) => moment(token.last_used) ?? 0 }] : []),
    { name: "Revoke", cell: (token) => (stateOf(token, now) === "opens" ? <button type="button" class="small" aria-label={`Revoke token ${token.id}`} onClick={() => setRevokes(token)}>Revoke</button> : "") },
  ];
  return (
    <Panel title="Tokens" wide aside={<><button type="button" class="small" onClick={() => setMakes(true)}>New token</button><label class="check"><input type="checkbox" checked={gone} onChange={(event) => setGone(event.currentTarget.checked)} /> those that open nothing too</label></>}>
      {read.problem && <ProblemNote problem={read.problem} />}
      {read.value && <Table label="Tokens" items={rows} keyOf={(token) => token.id} empty="There is no token." columns={columns} />}
      {fresh && <div class="note good" role="status"><p>The token is shown once. Give it to its user over a safe way.</p><Copy text={fresh} /></div>}
      {makes && <NewToken close={() => setMakes(false)} onToken={(text) => { setFresh(text); read.reload(); }} />}
      {revokes && (
        <Dialog title={`Revoke token ${revokes.id}?`} confirm="Revoke it" danger close={() => setRevokes(null)}
          act={async () => {
            await call(`/v1/tokens/${encodeURIComponent(revokes.id)}`, { method: "DELETE" });
            read.reload();
          }}>
          <p>It is of {revokes.user || "no user"}, role {revokes.role}. Whoever uses it is shut out at once, also from this page.</p>
        </Dialog>
      )}
    </Panel>
  );
}

// Reads all rows once, then only the new ones.
function Audit() {
  const { query } = useRoute();
  const kept = useRef<AuditRow[]>([]);
  const wanted = (query.get("find") ?? "").toLowerCase();
  const read = useLoaded(async (signal) => {
    const more = await newest<AuditRow>("/v1/audit", (row) => row.sequence, kept.current.at(-1)?.sequence ?? 0, audit_most, signal);
    kept.current = [...kept.current, ...more].slice(-audit_most);
    return kept.current;
  }, [], 15_000);
  const rows = [...(read.value ?? [])].reverse().filter((row) => wanted === "" || `${row.user} ${auditText(row)} ${row.action} ${row.target} ${row.credential} ${row.from} ${row.run}`.toLowerCase().includes(wanted));
  return (
    <Panel title="Audit" wide aside={<span class="quiet">at most the last {audit_most.toLocaleString("en-US")} changes</span>}>
      <div class="tools">
        <label class="field grow"><span class="visually-hidden">Filter the audit</span>
          <input type="search" placeholder="Filter: user, what was done, token, address" value={query.get("find") ?? ""} onInput={(event) => setQuery({ find: event.currentTarget.value })} /></label>
      </div>
      {read.problem && <ProblemNote problem={read.problem} />}
      {read.value && (
        <Table label="Audit, newest first" items={rows} keyOf={(row) => row.sequence} empty="Nothing was changed."
          columns={[
            { name: "Number", number: true, cell: (row) => row.sequence, width: 0.7 },
            { name: "Time", cell: (row) => exact(row.time), width: 1.4 },
            { name: "User", cell: (row) => row.user, sort: (row) => row.user },
            { name: "Role", cell: (row) => row.role, width: 0.7 },
            { name: "Token", cell: (row) => <code>{row.credential}</code> },
            { name: "From", cell: (row) => row.from },
            { name: "What", cell: (row) => <span title={`${row.action}, ${row.target}`}><Words text={auditText(row)} /></span>, sort: auditText, width: 3.4 },
          ]}
        />
      )}
    </Panel>
  );
}

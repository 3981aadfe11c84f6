// One run: its title, its actions, and its parts, each with an address.
import { useEffect } from "preact/hooks";
import { list } from "../../api/client.ts";
import { useCalm, useLoaded, useRead, useSession } from "../../api/hooks.ts";
import { useReports } from "../../api/reports.ts";
import type { Attempt, Run } from "../../api/types.ts";
import { Panel, ProblemNote, Quiet } from "../../parts/panel.tsx";
import { State } from "../../parts/state.tsx";
import { Words } from "../../parts/words.tsx";
import { parentOf, remoteKind } from "../../data/run_rows.ts";
import { owns } from "../../data/rights.ts";
import { address } from "../../router.ts";
import { hasEnded } from "../../text/states.ts";
import { plural } from "../../text/units.ts";
import { Events, useEvents } from "../cluster/events.tsx";
import { Actions } from "./actions.tsx";
import { Attempts } from "./attempts.tsx";
import { Checkpoints } from "./checkpoints.tsx";
import { Logs } from "./logs.tsx";
import { MetricsTab } from "./metrics.tsx";
import { Overview } from "./overview.tsx";
import { Ranks } from "./ranks.tsx";
import type { Shown } from "./shown.ts";
import { Spec } from "./spec.tsx";

const parts = [
  { name: "overview", word: "Overview" },
  { name: "metrics", word: "Metrics" },
  { name: "ranks", word: "Ranks" },
  { name: "attempts", word: "Attempts" },
  { name: "logs", word: "Logs" },
  { name: "checkpoints", word: "Checkpoints" },
  { name: "events", word: "Events" },
  { name: "spec", word: "Spec" },
] as const;

export type Part = (typeof parts)[number]["name"];

export function RunView({ name, part }: { name: string; part: string }) {
  const session = useSession();
  const run = useRead<Run>(`/v1/runs/${encodeURIComponent(name)}`, 3_000);
  const id = run.value?.run_id ?? "";
  const attempts = useLoaded((signal) => (id === "" ? Promise.resolve([]) : list<Attempt>(`/v1/runs/${id}/attempts`, signal)), [id], 15_000);
  const changed = useCalm(() => {
    run.reload();
    attempts.reload();
  }, 400);
  useEffect(() => {
    if (run.value) document.title = `${run.value.name} - rtrain`;
  }, [run.value?.name]);
  const shown = parts.find((part_of_run) => part_of_run.name === part)?.name ?? "overview";
  if (!run.value)
    return <div class="view">{run.problem ? <ProblemNote problem={run.problem} /> : <Quiet>Loading.</Quiet>}</div>;
  return (
    <Loaded run={run.value} attempts={attempts.value ?? []} part={shown} owner={owns(session, run.value)} onNew={changed}>
      {run.problem && <ProblemNote problem={run.problem} />}
    </Loaded>
  );
}

function Loaded({ run, attempts, part, owner, onNew, children }: {
  run: Run;
  attempts: Attempt[];
  part: Part;
  owner: boolean;
  onNew: () => void;
  children: preact.ComponentChildren;
}) {
  const events = useEvents({ run: run.run_id, onNew });
  const shown: Shown = { run, attempts, events, owner, reload: onNew };
  return (
    <div class="view">
      <p class="crumbs"><a href="#/runs">Runs</a></p>
      <div class="title-line">
        <h1><Words text={run.name} /></h1>
        <State state={run.state} title={run.reason_brief} />
        {remoteKind(run) && <span class="tag">{remoteKind(run) === "actor" ? "actor" : "remote call"}</span>}
        <Actions {...shown} />
      </div>
      <p class="quiet">
        {run.run_id}, by {run.user || "nobody"}, queue {run.queue}, {run.needs}{run.yields ? ", yields" : ""}
        {run.attempts > 1 && `, attempt ${run.attempt}`}
        {parentOf(run) && <>, submitted by <a href={address(["runs", parentOf(run)])}>{parentOf(run)}</a></>}
        {run.nodes.length > 0 && `, on ${run.nodes.length <= 4 ? run.nodes.join(", ") : plural(run.nodes.length, "node")}`}
      </p>
      {run.reason_brief && run.state !== "SUCCEEDED" && <div class={`note ${hasEnded(run.state) && run.state === "FAILED" ? "bad" : "wait"}`}><Words text={run.reason_brief} /></div>}
      {run.warnings.map((warning) => <div class="note wait" key={warning}>{warning}</div>)}
      {run.checkpoint_asked && <div class="note wait">A checkpoint was requested: {run.checkpoint_asked.why}</div>}
      {children}
      <nav class="tabs" aria-label="Parts of the run">
        {parts.map((part_of_run) => <a key={part_of_run.name} href={address(part_of_run.name === "overview" ? ["runs", run.run_id] : ["runs", run.run_id, part_of_run.name])} aria-current={part_of_run.name === part ? "page" : undefined}>{part_of_run.word}</a>)}
      </nav>
      <Body part={part} shown={shown} />
    </div>
  );
}

function Body({ part, shown }: { part: Part; shown: Shown }) {
  switch (part) {
    case "overview":
      return <OverviewLive {...shown} />;
    case "metrics":
      return <MetricsTab {...shown} />;
    case "ranks":
      return <Ranks {...shown} />;
    case "attempts":
      return <Panel title="Attempts" wide><Attempts {...shown} /></Panel>;
    case "logs":
      return <Logs {...shown} />;
    case "checkpoints":
      return <Checkpoints {...shown} />;
    case "events":
      return <Panel title="Events" wide><Events events={shown.events} /></Panel>;
    case "spec":
      return <Spec {...shown} />;
  }
}

function OverviewLive(shown: Shown) {
  const reports = useReports(shown.run.run_id);
  return <Overview {...shown} reports={reports} />;
}

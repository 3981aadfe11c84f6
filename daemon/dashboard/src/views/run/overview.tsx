// The state of a run: progress, the use of its time, its main metric, its attempts. While it waits: the reason.
import { useMemo } from "preact/hooks";
import { useNow, useRead } from "../../api/hooks.ts";
import type { Reports } from "../../api/reports.ts";
import type { Explanation, Run } from "../../api/types.ts";
import { Bar } from "../../parts/bar.tsx";
import { Chart } from "../../parts/chart.tsx";
import { Panel, ProblemNote, Quiet } from "../../parts/panel.tsx";
import { goodputOf, meaning } from "../../data/goodput.ts";
import { limitOf, progressOf, stopsOf } from "../../data/progress.ts";
import { checkpointsOf, keysOf, seriesOf, spansOf } from "../../data/series.ts";
import { setQuery, useRoute } from "../../router.ts";
import { hasEnded, isWaiting } from "../../text/states.ts";
import { ago, exact, moment } from "../../text/time.ts";
import { duration, number, percent } from "../../text/units.ts";
import { Attempts } from "./attempts.tsx";
import { Children } from "./children.tsx";
import type { Shown } from "./shown.ts";

export function Overview({ run, attempts, events, owner, reload, reports }: Shown & { reports: Reports }) {
  const now = useNow();
  return (
    <>
      <div class="tiles">
        <ProgressTile run={run} reports={reports} now={now} />
        <div class="tile">
          <h2>{hasEnded(run.state) ? "Took" : "Time since the start"}</h2>
          <p class="big">{timeOf(run, now)}</p>
          <p class="quiet">{run.started ? `started ${exact(run.started)}` : `submitted ${ago(run.submitted, now)}`}</p>
        </div>
        <div class="tile">
          <h2>Last report</h2>
          <p class="big">{run.last_report ? number(run.last_report.index) : "none"}</p>
          <p class="quiet">{run.last_report ? `${ago(run.last_report.time, now)}${run.attempts > 1 ? `, its number in attempt ${run.attempt}` : ""}` : "No report has come."}</p>
        </div>
        <div class="tile">
          <h2>Attempts</h2>
          <p class="big">{run.attempts}</p>
          <p class="quiet">{run.failures} of {run.max_failures < 0 ? "any number of" : run.max_failures} failures allowed</p>
        </div>
      </div>
      {isWaiting(run.state) && <Why run={run} />}
      <GoodputBar run={run} />
      <Children run={run} />
      <MainMetric run={run} attempts={attempts} reports={reports} now={now} />
      <Panel title="Attempts" wide><Attempts run={run} attempts={attempts} events={events} owner={owner} reload={reload} /></Panel>
    </>
  );
}

function timeOf(run: Run, now: number): string {
  const started = moment(run.started);
  if (started === null) return "not started";
  return duration((moment(run.ended) ?? now) - started);
}

function ProgressTile({ run, reports, now }: { run: Run; reports: Reports; now: number }) {
  const progress = progressOf(run, reports.points);
  const limit = limitOf(run, now);
  if (run.state === "SUCCEEDED") return <div class="tile"><h2>Progress</h2><p class="big">Done</p><Bar ratio={1} /></div>;
  if (!progress)
    return (
      <div class="tile">
        <h2>Progress</h2>
        <p class="big">{run.last_report ? `${number(run.last_report.index)} reports` : "none yet"}</p>
        <p class="quiet">{endOf(run, limit)}</p>
      </div>
    );
  const left = hasEnded(run.state) ? "" : progress.left_ms === null ? "Time left is not known yet." : `About ${duration(progress.left_ms)} left.`;
  return (
    <div class="tile">
      <h2>Progress</h2>
      <p class="big">{percent(progress.ratio)} <small>{progress.key} {number(progress.value)} of {number(progress.target)}</small></p>
      <Bar ratio={progress.ratio} text={left} />
    </div>
  );
}

// The known limits of its end, while no reported metric shows the progress.
function endOf(run: Run, limit: ReturnType<typeof limitOf>): string {
  if (hasEnded(run.state)) return "";
  if (limit) return `At most ${duration(limit.left_ms)} left (wall_time).`;
  const stops = Object.entries(stopsOf(run)).map(([key, target]) => `${key} ${typeof target === "number" ? number(target) : String(target)}`);
  return stops.length > 0 ? `It ends at ${stops.join(" or ")}.` : "Its spec names no end (stop:), so its time left is not known.";
}

export function GoodputBar({ run }: { run: Run }) {
  const goodput = goodputOf(run);
  if (!goodput) return null;
  return (
    <Panel title="What its time went to" wide aside={<span class="strong">{percent(goodput.productive)} productive</span>}>
      <div class="stack" aria-hidden="true">
        {goodput.parts.map((part) => <span key={part.cause} class={`stack-part cause-${part.cause}`} style={{ width: `${part.ratio * 100}%` }} title={`${part.cause} ${percent(part.ratio)}`} />)}
      </div>
      <ul class="stack-legend" aria-label="Causes">
        {goodput.parts.map((part) => (
          <li key={part.cause} title={meaning[part.cause] ?? part.cause}>
            <i class={`swatch cause-${part.cause}`} aria-hidden="true" /> {part.cause} <b>{percent(part.ratio)}</b> <span class="quiet">{duration(part.ms)}</span>
          </li>
        ))}
      </ul>
      {(run.advice ?? []).map((advice) => <p class="note wait" key={advice.text}>{advice.text}</p>)}
    </Panel>
  );
}

const preferred = ["loss", "train_loss", "val_loss", "eval_loss", "accuracy", "train/loss"];

export function mainKey(keys: readonly string[], run: Run): string {
  const score = (run.job?.["checkpoint"] as Record<string, unknown> | undefined)?.["score_attribute"];
  const wanted = [...preferred, ...(typeof score === "string" ? [score] : [])];
  return wanted.find((key) => keys.includes(key)) ?? keys[0] ?? "";
}

function MainMetric({ run, attempts, reports, now }: { run: Run; attempts: Shown["attempts"]; reports: Reports; now: number }) {
  const { query } = useRoute();
  const keys = useMemo(() => keysOf(reports.points), [reports]);
  const key = query.get("key") ?? mainKey(keys, run);
  const lines = useMemo(() => [{ name: key, series: seriesOf(reports.points, key, "step") }], [reports, key]);
  const spans = useMemo(() => spansOf(reports.points, attempts, "step", now), [reports, attempts]);
  const marks = useMemo(() => checkpointsOf(reports.points, "step"), [reports]);
  if (keys.length === 0) return run.started ? <Panel title="Metrics" wide><Quiet>No report with a number has come yet.</Quiet></Panel> : null;
  return (
    <Panel title="Metrics" wide aside={
      <label class="field">
        <span class="visually-hidden">Metric</span>
        <select value={key} onChange={(event) => setQuery({ key: event.currentTarget.value })}>
          {keys.map((key) => <option key={key} value={key}>{key}</option>)}
        </select>
      </label>
    }>
      <Chart title={key} lines={lines} axis="step" spans={spans} marks={marks} height={240} />
      <p class="quiet legend"><span>Every second attempt is shaded.</span><span><i class="diamond" aria-hidden="true" /> checkpoint</span></p>
    </Panel>
  );
}

export function Why({ run }: { run: Run }) {
  const why = useRead<Explanation>(`/v1/runs/${encodeURIComponent(run.run_id)}/explain`, 10_000);
  return (
    <Panel title="Why it waits" wide>
      {why.problem && <ProblemNote problem={why.problem} />}
      {why.value && (
        <>
          <p class="strong">{why.value.headline}</p>
          {why.value.queue && <p>Place {why.value.queue.position} of {why.value.queue.length} in queue {why.value.queue.name}.</p>}
          {why.value.rules.length > 0 && <ul class="plain-list">{why.value.rules.map((rule) => <li key={rule}>{rule}</li>)}</ul>}
          {why.value.groups.length > 0 && (
            <ul class="plain-list">
              {why.value.groups.map((group, at) => (
                <li key={at}><b>{number(group.nodes)} {group.nodes === 1 ? "node" : "nodes"}</b> {group.kind}: {group.text}{group.line && <span class="quiet"> ({group.line})</span>}</li>
              ))}
            </ul>
          )}
          {why.value.holders.length > 0 && <p>What it needs is held by {why.value.holders.join(", ")}.</p>}
          {why.value.nearest_change && <p><b>What would let it start:</b> {why.value.nearest_change}</p>}
        </>
      )}
      {!why.value && !why.problem && <Quiet>Loading.</Quiet>}
    </Panel>
  );
}

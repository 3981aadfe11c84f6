// The logs of a run's ranks: live while it trains, with a filter, and a link to the first error.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { eachLine, Problem } from "../../api/client.ts";
import { type LogRead, readLog } from "../../api/log_lines.ts";
import type { LogLine } from "../../api/types.ts";
import { Panel, ProblemNote, Quiet } from "../../parts/panel.tsx";
import { RankChoice } from "../../parts/rank_choice.tsx";
import { type Scroller, Virtual } from "../../parts/virtual.tsx";
import { useWidth } from "../../parts/width.ts";
import { LineList, LineView } from "../../data/log_list.ts";
import { lineText, matchesByRank, Wrapping } from "../../data/wrapping.ts";
import { setQuery, useRoute } from "../../router.ts";
import { filterOf, reportsError, shown } from "../../text/lines.ts";
import { clock, exact, moment } from "../../text/time.ts";
import { hasEnded } from "../../text/states.ts";
import type { Shown } from "./shown.ts";

const row_height = 19;
const character_width = 7.6;  // in px, of the log's type
const prefix_width = 190;  // in px, of time, attempt and rank
const ranks_named = 8;
const nothing = new LineList(0);
const none: LogRead = { list: nothing, whole: false, problem: null };
const words = [{ value: "all", word: "all" }, { value: "failed", word: "failed" }];

// The lists are changed in place. Each update is a new object, so that the page is drawn again.
// While it is paused nothing is requested. Then it goes on from the place that was reached.
function useLog(run: string, choice: string, state: "live" | "over" | "ended", paused: boolean): LogRead {
  const [read, set] = useState<LogRead>(none);
  const newest = useRef(state);
  newest.current = state;
  useEffect(() => set(none), [run, choice]);
  useEffect(() => (paused ? undefined : readLog({ run, choice, state: newest.current, draw: set })), [run, choice, paused]);
  return read;
}

// Saves the lines as a text file. All lines of the choice are requested if the page has dropped some.
async function download(run: string, choice: string, read: LogRead, visible: readonly LogLine[], matches: (line: string) => boolean): Promise<void> {
  const parts: string[] = [];
  if (read.whole && read.list.dropped === 0) for (const line of visible) parts.push(lineText(line));
  else
    await eachLine(`/v1/runs/${encodeURIComponent(run)}/logs?${choice}`, (text) => {
      const line = JSON.parse(text) as LogLine;
      if (matches(line.line)) parts.push(lineText(line));
    }, new AbortController().signal);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type: "text/plain" }));
  link.download = `${run}.log`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function Logs({ run, attempts, owner }: Shown) {
  if (!owner) return <Panel title="Logs" wide><Quiet>Its logs are shown to {run.user || "its user"} and to admins.</Quiet></Panel>;
  if (attempts.length === 0) return <Panel title="Logs" wide><Quiet>No attempt has begun.</Quiet></Panel>;
  return <OwnLogs run={run} attempts={attempts} />;
}

function OwnLogs({ run, attempts }: Pick<Shown, "run" | "attempts">) {
  const { query } = useRoute();
  const newest = attempts.at(-1)!.number;
  const attempt = query.get("attempt") ?? String(newest);
  const rank = query.get("rank") ?? "all";
  const stream = query.get("stream") ?? "";
  const wanted = query.get("find") ?? "";
  const world = attempt === "all" ? Math.max(...attempts.map((listed_attempt) => listed_attempt.world_size)) : (attempts.find((listed_attempt) => String(listed_attempt.number) === attempt)?.world_size ?? 1);
  const choice = new URLSearchParams({ attempt, rank, ...(stream ? { stream } : {}) }).toString();
  const live = !hasEnded(run.state) && (attempt === "all" || attempt === String(newest));
  const [paused, setPaused] = useState(false);
  const [wrapped, setWrapped] = useState(false);
  const [failed, setFailed] = useState<Problem | null>(null);
  const read = useLog(run.run_id, choice, live ? "live" : hasEnded(run.state) ? "ended" : "over", paused && live);
  const { list, whole, problem } = read;
  const filter = useMemo(() => filterOf(wanted), [wanted]);
  const view = useMemo(() => new LineView(filter), [filter, list]).update(list);
  const { visible } = view;
  const error = view.firstError(list);
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const columns = Math.floor((width - prefix_width) / character_width);
  const wrapping = useMemo(() => new Wrapping(columns), [columns, view, wrapped]);
  if (wrapped) wrapping.update(visible);
  const matching = useMemo(() => (wanted === "" || filter.problem ? [] : matchesByRank(visible, ranks_named)), [visible, visible.length, wanted]);
  const scroller = useRef<Scroller>(null);
  const [marked, setMarked] = useState<LogLine | null>(null);
  const [sticks, setSticks] = useState(true);
  const jump = () => {
    setMarked(visible[error] ?? null);
    if (error < 0) return;
    setSticks(false);
    scroller.current?.to(wrapped ? wrapping.rowOf(error) : error);
  };
  // Scrolls to the first error after the lines have arrived.
  const jumped = useRef(false);
  useEffect(() => {
    if (query.get("error") !== "1" || jumped.current || visible.length === 0) return;
    if (error < 0 && !whole) return;
    jumped.current = true;
    jump();
  }, [error, visible.length > 0, whole]);
  const wide = world > 1 || rank !== String(Number(rank));
  const count = list.lines.length;
  return (
    <Panel title="Logs" wide aside={<span class="quiet" role="status">{visible.length.toLocaleString("en-US")} lines{wanted && ` of ${count.toLocaleString("en-US")}`}{live ? (paused ? ", paused" : ", live") : ""}{list.dropped > 0 ? ", older ones left out" : ""}</span>}>
      <div class="tools">
        <label class="field"><span>Attempt</span>
          <select value={attempt} onChange={(event) => setQuery({ attempt: event.currentTarget.value, error: "" })}>
            {attempts.map((listed_attempt) => <option key={listed_attempt.number} value={String(listed_attempt.number)}>{listed_attempt.number}</option>)}
            <option value="all">all</option>
          </select></label>
        <RankChoice value={rank} world={world} words={words} onChange={(chosen_rank) => setQuery({ rank: chosen_rank, error: "" })} />
        <label class="field"><span>Stream</span>
          <select value={stream} onChange={(event) => setQuery({ stream: event.currentTarget.value })}>
            <option value="">all</option><option value="out">out</option><option value="err">err</option><option value="setup">setup</option>
          </select></label>
        <label class="field grow"><span>Filter</span>
          <input type="search" placeholder="text, or /expression/i" value={wanted} aria-invalid={filter.problem !== ""} onInput={(event) => setQuery({ find: event.currentTarget.value })} /></label>
        <button type="button" onClick={jump} disabled={error < 0}>{error < 0 ? "No error found" : "First error"}</button>
        <button type="button" aria-pressed={sticks} onClick={() => { setSticks(!sticks); if (!sticks) scroller.current?.toEnd(); }}>Follow the end</button>
        {live && <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>Pause</button>}
        <button type="button" aria-pressed={wrapped} onClick={() => setWrapped(!wrapped)}>Wrap</button>
        <button type="button" disabled={visible.length === 0} onClick={() => { setFailed(null); download(run.run_id, choice, read, visible, filter.matches).catch((wrong: unknown) => setFailed(wrong instanceof Problem ? wrong : new Problem(-1, String(wrong)))); }}>Download</button>
        {wanted !== "" && (rank !== "all" || attempt !== "all" || stream !== "") && <button type="button" onClick={() => setQuery({ rank: "all", attempt: "all", stream: "", error: "" })}>Search all ranks and attempts</button>}
      </div>
      {matching.length > 0 && (world > 1 || attempt === "all") && (
        <p class="tools quiet">
          <span>Found in</span>
          {matching.map((matches) => <button key={`${matches.attempt}/${matches.rank}`} type="button" class="small" onClick={() => setQuery({ rank: String(matches.rank), attempt: String(matches.attempt) })}>attempt {matches.attempt} rank {matches.rank}: {matches.count.toLocaleString("en-US")}</button>)}
        </p>
      )}
      {failed && <ProblemNote problem={failed} />}
      {filter.problem && <p class="note wait">{filter.problem}</p>}
      {problem && <ProblemNote problem={problem} />}
      {visible.length === 0 && !problem && <Quiet>{count > 0 ? "No line fits the filter." : whole ? "Nothing was written." : "Waiting for lines."}</Quiet>}
      <div ref={box}>
        {visible.length > 0 && (
          <Virtual count={wrapped ? wrapping.rows : visible.length} rowHeight={row_height} height={560} label="Lines of the log" role="log" stick={sticks} handle={scroller}
            row={(place) => {
              const { line, text, first } = wrapped ? wrapping.at(place) : { line: visible[place]!, text: shown(visible[place]!.line), first: true };
              return <Row line={line} text={text} first={first} marked={line === marked} wide={wide} many={attempt === "all"} />;
            }} />
        )}
      </div>
    </Panel>
  );
}

function Row({ line, text, first, marked, wide, many }: { line: LogLine; text: string; first: boolean; marked: boolean; wide: boolean; many: boolean }) {
  const kind = reportsError(line.line) ? "error" : line.stream === "err" ? "err" : "";
  return (
    <div class={`log-line ${kind} ${marked ? "marked" : ""} ${first ? "" : "continued"}`}>
      <time title={exact(line.time)}>{clock(moment(line.time) ?? 0)}</time>
      {many && <span class="log-from">#{line.attempt}</span>}
      {wide && <span class={`log-from rank-${line.rank % 8}`}>rank {line.rank}</span>}
      <span class="log-text">{text}</span>
    </div>
  );
}

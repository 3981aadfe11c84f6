// The logs of a run's ranks: live while it trains, with a filter, and a way to the first error.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Problem, text } from "../../api/client.ts";
import { follow } from "../../api/stream.ts";
import type { LogLine } from "../../api/types.ts";
import { Panel, ProblemNote, Quiet } from "../../parts/panel.tsx";
import { type Scroller, Virtual } from "../../parts/virtual.tsx";
import { setQuery, useRoute } from "../../router.ts";
import { filterOf, firstError, shown, tellsOfError } from "../../text/lines.ts";
import { clock, exact, moment } from "../../text/time.ts";
import { hasEnded } from "../../text/states.ts";
import type { Shown } from "./run.tsx";

const lines_most = 300_000;
const row_height = 19;

interface Lines {
  lines: LogLine[];
  cut: boolean; // the oldest were dropped
  whole: boolean; // all that was asked for is here
  problem: Problem | null;
}

const none: Lines = { lines: [], cut: false, whole: false, problem: null };

function parsed(body: string): LogLine[] {
  return body.split("\n").filter((one) => one !== "").map((one) => JSON.parse(one) as LogLine);
}

function useLines(run: string, choice: string, live: boolean): Lines {
  const [state, set] = useState<Lines>(none);
  useEffect(() => {
    const path = `/v1/runs/${encodeURIComponent(run)}/logs?${choice}`;
    set(none);
    if (!live) {
      const ending = new AbortController();
      text(path, { signal: ending.signal }).then(
        (body) => {
          const all = parsed(body);
          set({ lines: all.slice(-lines_most), cut: all.length > lines_most, whole: true, problem: null });
        },
        (wrong: unknown) => {
          if (!ending.signal.aborted) set({ ...none, whole: true, problem: wrong instanceof Problem ? wrong : new Problem(-1, String(wrong)) });
        },
      );
      return () => ending.abort();
    }
    let kept: LogLine[] = [];
    let cut = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const draw = (whole: boolean) => {
      clearTimeout(timer);
      timer = undefined;
      set({ lines: kept.slice(), cut, whole, problem: null });
    };
    const close = follow({
      path,
      resumes: false,
      onOpen: () => {
        kept = []; // the stream begins anew
        cut = false;
      },
      onData: (data) => {
        kept.push(JSON.parse(data) as LogLine);
        if (kept.length > lines_most) {
          kept = kept.slice(-Math.floor(lines_most * 0.9));
          cut = true;
        }
        timer ??= setTimeout(() => draw(false), 150);
      },
      onEnd: () => draw(true),
    });
    return () => {
      clearTimeout(timer);
      close();
    };
  }, [run, choice, live]);
  return state;
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
  const world = attempt === "all" ? Math.max(...attempts.map((one) => one.world_size)) : (attempts.find((one) => String(one.number) === attempt)?.world_size ?? 1);
  const choice = new URLSearchParams({ attempt, rank, ...(stream ? { stream } : {}) }).toString();
  const live = !hasEnded(run.state) && (attempt === "all" || attempt === String(newest));
  const lines = useLines(run.run_id, choice, live);
  const filter = useMemo(() => filterOf(wanted), [wanted]);
  const visible = useMemo(() => (wanted === "" ? lines.lines : lines.lines.filter((one) => filter.matches(one.line))), [lines.lines, filter]);
  const list = useRef<Scroller>(null);
  const [at, setAt] = useState(-1);
  const [sticks, setSticks] = useState(true);
  const jump = () => {
    const found = firstError(visible);
    setAt(found);
    if (found < 0) return;
    setSticks(false);
    list.current?.to(found);
  };
  // A link to the first error goes there once the lines have come.
  const jumped = useRef(false);
  useEffect(() => {
    if (query.get("error") !== "1" || jumped.current || visible.length === 0) return;
    if (firstError(visible) < 0 && !lines.whole) return;
    jumped.current = true;
    jump();
  }, [visible, lines.whole]);
  const wide = world > 1 || rank !== String(Number(rank));
  const errors = firstError(visible);
  return (
    <Panel title="Logs" wide aside={<span class="quiet" role="status">{visible.length.toLocaleString("en-US")} lines{wanted && ` of ${lines.lines.length.toLocaleString("en-US")}`}{live ? ", live" : ""}{lines.cut ? ", older ones left out" : ""}</span>}>
      <div class="tools">
        <label class="field"><span>Attempt</span>
          <select value={attempt} onChange={(event) => setQuery({ attempt: event.currentTarget.value, error: "" })}>
            {attempts.map((one) => <option key={one.number} value={String(one.number)}>{one.number}</option>)}
            <option value="all">all</option>
          </select></label>
        <label class="field"><span>Rank</span>
          <select value={rank} onChange={(event) => setQuery({ rank: event.currentTarget.value, error: "" })}>
            <option value="all">all</option><option value="failed">failed</option>
            {Array.from({ length: Math.min(world, 1_000) }, (_, one) => <option key={one} value={String(one)}>{one}</option>)}
          </select></label>
        <label class="field"><span>Stream</span>
          <select value={stream} onChange={(event) => setQuery({ stream: event.currentTarget.value })}>
            <option value="">both</option><option value="out">out</option><option value="err">err</option>
          </select></label>
        <label class="field grow"><span>Filter</span>
          <input type="search" placeholder="text, or /expression/i" value={wanted} aria-invalid={filter.problem !== ""} onInput={(event) => setQuery({ find: event.currentTarget.value })} /></label>
        <button type="button" onClick={jump} disabled={errors < 0}>{errors < 0 ? "No error found" : "First error"}</button>
        <button type="button" aria-pressed={sticks} onClick={() => { setSticks(!sticks); if (!sticks) list.current?.toEnd(); }}>Follow the end</button>
      </div>
      {filter.problem && <p class="note wait">{filter.problem}</p>}
      {lines.problem && <ProblemNote problem={lines.problem} />}
      {visible.length === 0 && !lines.problem && <Quiet>{lines.lines.length > 0 ? "No line fits the filter." : lines.whole ? "Nothing was written." : "Waiting for lines."}</Quiet>}
      {visible.length > 0 && (
        <Virtual count={visible.length} rowHeight={row_height} height={560} label="Lines of the log" role="log" stick={sticks} handle={list}
          row={(place) => <Row one={visible[place]!} marked={place === at} wide={wide} many={attempt === "all"} />} />
      )}
    </Panel>
  );
}

function Row({ one, marked, wide, many }: { one: LogLine; marked: boolean; wide: boolean; many: boolean }) {
  const kind = tellsOfError(one.line) ? "error" : one.stream === "err" ? "err" : "";
  return (
    <div class={`log-line ${kind} ${marked ? "marked" : ""}`}>
      <time title={exact(one.time)}>{clock(moment(one.time) ?? 0)}</time>
      {many && <span class="log-from">#{one.attempt}</span>}
      {wide && <span class={`log-from rank-${one.rank % 8}`}>rank {one.rank}</span>}
      <span class="log-text">{shown(one.line)}</span>
    </div>
  );
}

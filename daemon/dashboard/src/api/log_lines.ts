// The lines of a run's logs: the last ones first, then what comes behind them. What was read last is remembered with its
// place, so that neither another tab nor a restart of the head has it read again.
import { LineList } from "../data/log_list.ts";
import { eachLine, onSession, Problem, sessionNow } from "./client.ts";
import { follow } from "./stream.ts";
import type { LogLine } from "./types.ts";

export const lines_most = 300_000;

const draw_ms = 150;
const again_ms = 2_000;

interface Store {
  key: string;
  list: LineList;
  position: string; // a place in the log, as the head names it; "": not known
  settled: number; // lines before this number lie before that place
  read: boolean; // the last lines are here
  whole: boolean; // all that was asked for is here
}

export interface LogRead {
  list: LineList;
  whole: boolean;
  problem: Problem | null;
}

let kept: Store | null = null;
let reader: string | undefined; // what one person read is not kept for the next
onSession(() => {
  const session = sessionNow();
  const who = session ? `${session.role} ${session.user}` : undefined;
  if (who !== reader) kept = null;
  reader = who;
});

function storeOf(key: string): Store {
  if (kept?.key !== key) kept = { key, list: new LineList(lines_most), position: "", settled: 0, read: false, whole: false };
  return kept;
}

// `choice`: attempt, rank and stream as a query. `state`: of the run. Calls `draw` when lines came, some times a second.
export function readLog({ run, choice, state, draw }: { run: string; choice: string; state: "live" | "over" | "ended"; draw: (read: LogRead) => void }): () => void {
  const path = `/v1/runs/${encodeURIComponent(run)}/logs?${choice}`;
  const store = storeOf(path);
  const ending = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let later: ReturnType<typeof setTimeout> | undefined;
  let close = () => {};
  const show = (problem: Problem | null = null) => {
    clearTimeout(timer);
    timer = undefined;
    draw({ list: store.list, whole: store.whole, problem });
  };
  const calmly = () => {
    timer ??= setTimeout(() => show(), draw_ms);
  };
  const begin = async () => {
    store.list.cutTo(0);
    store.position = "";
    try {
      const headers = await eachLine(`${path}&tail=${lines_most + 1}&position=true`, (line) => {
        store.list.push(JSON.parse(line) as LogLine);
        calmly();
      }, ending.signal);
      store.list.trim();
      store.position = headers.get("x-rtrain-logs-position") ?? "";
    } catch (wrong) {
      if (ending.signal.aborted) return;
      const problem = wrong instanceof Problem ? wrong : new Problem(-1, String(wrong));
      const passes = problem.status === 0 || problem.status === 429 || problem.status >= 500;
      if (passes) later = setTimeout(() => void begin(), again_ms);
      else store.whole = true;
      return show(problem.status === 429 ? null : problem);
    }
    store.settled = store.list.end;
    store.read = true;
    store.whole = state !== "live";
    show();
    if (state === "live") goOn();
  };
  const goOn = () => {
    // Without a place the stream begins with the last lines again.
    const resumes = store.position !== "";
    if (!resumes) store.settled = 0;
    close = follow({
      path: resumes ? path : `${path}&tail=${lines_most}`,
      after: store.position,
      resumes,
      onOpen: () => store.list.cutTo(store.settled), // lines behind the last place come again
      onData: (data, place) => {
        store.list.push(JSON.parse(data) as LogLine);
        if (resumes && place !== "" && place !== store.position) {
          store.position = place;
          store.settled = store.list.end;
        }
        calmly();
      },
      onEnd: () => {
        store.whole = true;
        show();
      },
      onRefused: () => void begin(), // the head does not know the place
    });
  };
  if (store.read) show();
  if (!store.read || store.position === "") void begin();
  else if (state !== "over") goOn(); // nothing new comes of an attempt that was followed by another one
  return () => {
    ending.abort();
    clearTimeout(timer);
    clearTimeout(later);
    close();
  };
}

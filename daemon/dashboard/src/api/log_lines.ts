// The lines of a run's logs: the last lines first, then the following ones. The lines that were read last are kept with
// their position, so that neither another tab nor a restart of the head reads them again.
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
  position: string;  // a position in the log, as the head names it; "": unknown
  settled: number;  // lines before this number are before that position
  read: boolean;  // true: the last lines have arrived
  whole: boolean;  // true: all requested lines have arrived
}

export interface LogRead {
  list: LineList;
  whole: boolean;
  problem: Problem | null;
}

let kept: Store | null = null;
let reader: string | undefined;  // the user who read the lines; another user must not see them
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

// `choice`: attempt, rank and stream as a query. `state`: state of the run. Calls `draw` after lines have arrived, a
// few times a second.
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
    // Without a position the stream starts with the last lines again.
    const resumes = store.position !== "";
    if (!resumes) store.settled = 0;
    close = follow({
      path: resumes ? path : `${path}&tail=${lines_most}`,
      after: store.position,
      resumes,
      onOpen: () => store.list.cutTo(store.settled),  // lines after the last position are sent again
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
      onRefused: () => void begin(),  // the head no longer has the position
    });
  };
  if (store.read) show();
  if (!store.read || store.position === "") void begin();
  else if (state !== "over") goOn();  // No lines are added to an attempt after the next one has begun.
  return () => {
    ending.abort();
    clearTimeout(timer);
    clearTimeout(later);
    close();
  };
}

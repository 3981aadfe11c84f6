// Server-sent events that continue after a restart of the head, from the position that was reached. A hidden page holds
// no connection, because a browser opens only six to one address.
import { Problem, readSession, statusOf } from "./client.ts";

export interface Following {
  path: string; // without `follow`
  after?: string;  // the id after which the stream starts
  resumes: boolean;  // true: events have ids; false: the stream starts again from its begin, after `onOpen`
  onData: (data: string, id: string) => void;
  onOpen?: () => void;
  onEnd?: () => void;
  onRefused?: () => void;  // called when the head refuses the request; the stream has ended
}

const first_pause_ms = 500;
const longest_pause_ms = 5_000;

type Listener = () => void;
const listeners = new Set<Listener>();
const broken = new Set<object>();  // streams without a connection to the head

export const headAnswers = () => broken.size === 0;
export function onHead(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
export function mark(who: object, answers: boolean) {
  const before = headAnswers();
  if (answers) broken.delete(who);
  else broken.add(who);
  if (before !== headAnswers()) for (const listener of [...listeners]) listener();
}

// A stream does not report a head that hangs: its connection stays open. So the page requests /healthz while a stream is
// open, and a head that does not answer within the limit counts as away.
const health_pause_ms = 2_000;
const lost = new Set<() => void>();  // one call for each open stream
let next_health_check: ReturnType<typeof setTimeout> | undefined;

async function checkHealth() {
  try {
    await statusOf("/healthz");
  } catch {
    for (const away of [...lost]) away();
  }
  next_health_check = lost.size > 0 ? setTimeout(() => void checkHealth(), health_pause_ms) : undefined;
}

function watch(away: () => void) {
  lost.add(away);
  next_health_check ??= setTimeout(() => void checkHealth(), health_pause_ms);
}

export function addressOf(path: string, after: string): string {
  const mark = path.includes("?") ? "&" : "?";
  return `${path}${mark}follow=true${after === "" ? "" : `&after=${encodeURIComponent(after)}`}`;
}

export function follow(wanted: Following): () => void {
  const who = {};
  let source: EventSource | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let pause = first_pause_ms;
  let after = wanted.after ?? "";
  let finished = false;

  const shut = () => {
    lost.delete(away);
    source?.close();
    source = null;
    clearTimeout(timer);
  };
  const finish = () => {
    finished = true;
    shut();
    mark(who, true);
    document.removeEventListener("visibilitychange", turn);
  };
  const address = () => addressOf(wanted.path, wanted.resumes ? after : "");
  // An event stream does not report why it failed. If the session has ended, the sign-in page appears and the stream
  // ends.
  const reopen = async (refused: boolean) => {
    await readSession();
    if (refused && !finished && wanted.onRefused && (await statusOf(address())) === 400) {
      if (finished) return;
      finish();
      wanted.onRefused();
    } else {
      open();
    }
  };
  const again = (refused = false) => {
    shut();
    if (finished) return;  // it was ended while a request was under way
    timer = setTimeout(() => {
      reopen(refused).catch((wrong: unknown) => {
        if (wrong instanceof Problem) again(refused);
      });
    }, pause);
    pause = Math.min(pause * 2, longest_pause_ms);
  };
  function away() {
    mark(who, false);
    again();
  }
  function open() {
    if (finished || document.hidden || source) return;
    const opened = new EventSource(address());
    source = opened;
    watch(away);
    opened.onopen = () => {
      pause = first_pause_ms;
      mark(who, true);
      wanted.onOpen?.();
    };
    opened.onmessage = (event: MessageEvent<string>) => {
      if (event.lastEventId !== "") after = event.lastEventId;
      wanted.onData(event.data, event.lastEventId);
    };
    opened.addEventListener("end", () => {
      finish();
      wanted.onEnd?.();
    });
    opened.onerror = () => {
      if (source !== opened) return;
      // true: the head has answered with a refusal; false: the connection broke
      const refused = opened.readyState === EventSource.CLOSED;
      mark(who, false);
      again(refused);
    };
  }
  function turn() {
    if (document.hidden) shut();
    else open();
  }
  document.addEventListener("visibilitychange", turn);
  open();
  return finish;
}

// Hooks with which views read from the head: once, repeatedly while the page is visible, or as a stream.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { call, onSession, Problem, sessionNow } from "./client.ts";
import { headAnswers, mark, onHead } from "./stream.ts";

export interface Loaded<T> {
  value: T | undefined;  // the newest value; it stays if a later request fails
  problem: Problem | null;
  reload: () => void;
}

// Calls `load` when `deps` change, and every `every_ms` milliseconds (0: once) while the page is visible.
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, deps: unknown[], every_ms = 0): Loaded<T> {
  const [value, setValue] = useState<T | undefined>(undefined);
  const [problem, setProblem] = useState<Problem | null>(null);
  const again = useRef<() => void>(() => {});
  const who = useRef({});
  useEffect(() => {
    const ending = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let busy = false;
    let wanted = false;
    let missing = false;  // true: the head answered that it does not exist, so it is not requested again
    const run = async () => {
      clearTimeout(timer);
      if (busy) {
        wanted = true;
        return;
      }
      busy = true;
      try {
        const loaded = await load(ending.signal);
        if (ending.signal.aborted) return;
        mark(who.current, true);
        missing = false;
        setValue(() => loaded);
        setProblem(null);
      } catch (wrong) {
        if (ending.signal.aborted) return;
        missing = wrong instanceof Problem && wrong.status === 404;
        const known = wrong instanceof Problem ? wrong : new Problem(-1, String(wrong));
        mark(who.current, known.status !== 0 && known.status !== 503);
        setProblem(known);
        if (known.status === 0 || known.status >= 500) timer = setTimeout(visible, Math.max(every_ms, 2_000));
      } finally {
        busy = false;
      }
      if (wanted) {
        wanted = false;
        void run();
      } else if (every_ms > 0 && !missing) {
        clearTimeout(timer);
        timer = setTimeout(visible, every_ms);
      }
    };
    const visible = () => {
      if (!document.hidden) void run();
    };
    const seen = () => {
      if (!document.hidden && every_ms > 0 && !missing) void run();
    };
    setValue(undefined);
    setProblem(null);
    again.current = () => void run();
    document.addEventListener("visibilitychange", seen);
    void run();
    return () => {
      ending.abort();
      clearTimeout(timer);
      mark(who.current, true);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [...deps, every_ms]);
  const reload = useCallback(() => again.current(), []);
  return { value, problem, reload };
}

export function useRead<T>(path: string, every_ms = 0): Loaded<T> {
  return useLoaded<T>((signal) => call<T>(path, { signal }), [path], every_ms);
}

export function useSession() {
  const [, redraw] = useState(0);
  useLayoutEffect(() => onSession(() => redraw((n) => n + 1)), []);
  return sessionNow();
}

export function useHeadAnswers(): boolean {
  const [answers, set] = useState(headAnswers());
  useLayoutEffect(() => onHead(() => set(headAnswers())), []);
  return answers;
}

// Returns the present time, updated every `every_ms`, so that durations advance.
export function useNow(every_ms = 1_000): number {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => set(Date.now()), every_ms);
    return () => clearInterval(timer);
  }, [every_ms]);
  return now;
}

// Returns a function that calls `task` at most once per `pause_ms`.
export function useCalm(task: () => void, pause_ms: number): () => void {
  const newest = useRef(task);
  newest.current = task;
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    if (timer.current !== undefined) return;
    timer.current = setTimeout(() => {
      timer.current = undefined;
      newest.current();
    }, pause_ms);
  }, [pause_ms]);
}

// The time limit of every request: the head is away if it sends nothing for that long.
export const limit_ms = 5_000;

export interface Limited {
  signal: AbortSignal;  // aborts at the limit, or with the caller's signal
  overdue: () => boolean;  // true: the limit has passed
  arrived: () => void;  // a part of the answer is here: the limit begins again
  end: () => void;
}

// Begins the limit of one request. The caller ends it after the last byte of the answer.
// `most_ms`: the time until the answer, and between its parts.
export function limited(outer?: AbortSignal, most_ms = limit_ms): Limited {
  const ending = new AbortController();
  let late = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stop = () => ending.abort();
  const arrived = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      late = true;
      stop();
    }, most_ms);
  };
  if (outer?.aborted) stop();
  else outer?.addEventListener("abort", stop, { once: true });
  arrived();
  return {
    signal: ending.signal,
    overdue: () => late,
    arrived,
    end: () => {
      clearTimeout(timer);
      outer?.removeEventListener("abort", stop);
    },
  };
}

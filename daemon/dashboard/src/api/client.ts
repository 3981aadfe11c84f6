// Requests to the head, with the session's cookie and, for changes, its CSRF token. An unsuccessful answer is thrown as
// a Problem with the head's message.
import { limit_ms, type Limited, limited } from "./limit.ts";
import type { Page, SessionInfo } from "./types.ts";

export class Problem extends Error {
  readonly status: number;  // 0: no answer arrived
  readonly next: string;
  constructor(status: number, message: string, next = "") {
    super(message);
    this.status = status;
    this.next = next;
  }
}

type Listener = () => void;

let session: SessionInfo | null | undefined;  // undefined: unknown yet
let ended = false;  // there was a session, and the head has ended it
const listeners = new Set<Listener>();

export const sessionNow = () => session;
export const sessionEnded = () => ended;

export function onSession(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function setSession(next: SessionInfo | null, wished = false) {
  ended = next === null && !wished && (ended || (session ?? null) !== null);
  session = next;
  for (const listener of [...listeners]) listener();
}

interface Options {
  method?: string;
  body?: unknown;
  signal?: AbortSignal;
  limit_ms?: number;  // for work that takes the head longer than an answer
}

const noAnswer = (ms: number) => `The head did not answer within ${ms / 1_000} seconds.`;
const no_answer = noAnswer(limit_ms);
const noAnswerToChange = (ms: number) => `${noAnswer(ms)} It may still do what you asked for: look before you repeat it.`;

// Returns the headers of an answer; its body may still be on its way.
async function sendRequest(path: string, { method = "GET", body, signal, limit_ms: most_ms = limit_ms }: Options, limit: Limited): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (method !== "GET" && session) headers["x-rtrain-csrf"] = session.csrf;
  try {
    return await fetch(path, {
      method,
      headers,
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: limit.signal,
    });
  } catch (wrong) {
    if (limit.overdue()) throw new Problem(0, method === "GET" ? noAnswer(most_ms) : noAnswerToChange(most_ms));
    if (signal?.aborted) throw wrong;
    throw new Problem(0, "The head does not answer.");
  }
}

// Reads the parts of an answer's body. Each part must arrive within the limit.
async function eachPart(answer: Response, take: (part: Uint8Array) => void, signal: AbortSignal | undefined, limit: Limited): Promise<void> {
  if (!answer.body) return;
  const reader = answer.body.getReader();
  const read = () => reader.read().catch((wrong: unknown) => {
    if (limit.overdue()) throw new Problem(0, no_answer);
    throw signal?.aborted ? wrong : new Problem(0, "The head's answer broke off.");
  });
  for (let part = await read(); !part.done; part = await read()) {
    limit.arrived();
    take(part.value);
  }
}

async function textOf(answer: Response, signal: AbortSignal | undefined, limit: Limited): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  await eachPart(answer, (part) => (text += decoder.decode(part, { stream: true })), signal, limit);
  return text + decoder.decode();
}

async function problemOf(answer: Response, limit: Limited): Promise<Problem> {
  try {
    const body = JSON.parse(await textOf(answer, undefined, limit)) as { message?: string; next?: string };
    return new Problem(answer.status, body.message ?? answer.statusText, body.next ?? "");
  } catch {
    return new Problem(answer.status, answer.statusText || `status ${answer.status}`);
  }
}

async function checked(path: string, options: Options, limit: Limited): Promise<Response> {
  const answer = await sendRequest(path, options, limit);
  limit.arrived();
  head_origin = answer.headers.get("x-rtrain-head") ?? head_origin;
  if (answer.ok) return answer;
  const problem = await problemOf(answer, limit);
  if (answer.status === 401 && path !== "/v1/session") setSession(null);
  throw problem;
}

export async function call<T>(path: string, options: Options = {}): Promise<T> {
  const limit = limited(options.signal, options.limit_ms);
  try {
    const answer = await checked(path, options, limit);
    return JSON.parse(await textOf(answer, options.signal, limit)) as T;
  } finally {
    limit.end();
  }
}

// Calls `take` with each line of an answer as it arrives. Returns the answer's headers.
export async function eachLine(path: string, take: (line: string) => void, signal: AbortSignal): Promise<Headers> {
  const limit = limited(signal);
  try {
    const answer = await checked(path, { signal }, limit);
    const decoder = new TextDecoder();
    let rest = "";
    await eachPart(answer, (part) => {
      const lines = (rest + decoder.decode(part, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line !== "") take(line);
    }, signal, limit);
    if (rest !== "") take(rest);
    return answer.headers;
  } finally {
    limit.end();
  }
}

// Returns the status of an answer without reading its body.
export async function statusOf(path: string): Promise<number> {
  const ending = new AbortController();
  const limit = limited(ending.signal);
  try {
    return (await sendRequest(path, { signal: ending.signal }, limit)).status;
  } finally {
    ending.abort();
    limit.end();
  }
}

// Returns the items of all pages of a list, at most `most`.
export async function list<T>(path: string, signal?: AbortSignal, most = 20_000): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | null = "";
  while (cursor !== null && items.length < most) {
    const mark: string = path.includes("?") ? "&" : "?";
    const at: string = `${path}${mark}limit=1000${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`;
    const page: Page<T> = await call<Page<T>>(at, signal ? { signal } : {});
    items.push(...page.items);
    cursor = page.next_cursor;
  }
  return items;
}

// Returns the newest `most` rows, at most 1,000, of a list that is ordered by age. With `after`, returns the rows after
// that one.
export async function newest<T>(path: string, idOf: (row: T) => number, after: number, most: number, signal?: AbortSignal): Promise<T[]> {
  const mark: string = path.includes("?") ? "&" : "?";
  const read = (asked: string) => call<Page<T>>(`${path}${mark}${asked}`, signal ? { signal } : {});
  if (after === 0) return (await read(`last=${most}`)).items;
  const behind = await read(`after=${after}&limit=1000`);
  if (behind.next_cursor === null) return behind.items.slice(-most);
  return (await read(`last=${most}`)).items.filter((row) => idOf(row) > after);
}

// Returns the signed-in user. Rejects if no answer arrives.
export async function readSession(): Promise<void> {
  try {
    setSession(await call<SessionInfo>("/v1/session"));
  } catch (wrong) {
    if (!(wrong instanceof Problem) || wrong.status === 0 || wrong.status >= 500) throw wrong;
    setSession(null);
  }
}

export async function signIn(token: string): Promise<void> {
  setSession(await call<SessionInfo>("/v1/session", { method: "POST", body: { token } }));
}

export async function signOut(): Promise<void> {
  try {
    await call("/v1/session", { method: "DELETE" });
  } finally {
    setSession(null, true);
  }
}

// Returns the address under which other people can open this page: the head's own. A proxy on this machine reports it.
let head_origin = "";
export const addressToShare = () => (head_origin || location.origin) + location.pathname + location.hash;

export function pathOf(...parts: string[]): string {
  return `/v1/${parts.map(encodeURIComponent).join("/")}`;
}

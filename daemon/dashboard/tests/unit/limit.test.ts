// A head that hangs is known as away within the limit. The server here accepts connections and stays silent, as a
// stopped process does.
import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { call, eachLine, Problem } from "../../src/api/client.ts";
import { limit_ms } from "../../src/api/limit.ts";
import { follow, headAnswers } from "../../src/api/stream.ts";

let server: Server;
let silent = true;

before(async () => {
  server = createServer((request, answer) => {
    if (request.url === "/half") {
      answer.writeHead(200, { "content-type": "application/json" });
      answer.write('{"items":');
    } else if (request.url === "/healthz" && !silent) {
      answer.end("{}");
    } else if (request.url === "/slow") {
      answer.writeHead(200);
      let left = 4;
      const more = setInterval(() => (left-- > 0 ? answer.write(`${left}\n`) : (clearInterval(more), answer.end())), 2_000);
    }
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const real = globalThis.fetch;
  globalThis.fetch = (path, options) => real(base + String(path), options);
});

after(() => {
  server.closeAllConnections();
  server.close();
});

// Fails instead of waiting for ever for a request without a limit.
const within = <T>(ms: number, work: Promise<T>) =>
  Promise.race([work, new Promise<never>((_, no) => setTimeout(() => no(new Error(`no end after ${ms} ms`)), ms).unref())]);

test("a request without an answer ends at the limit", async () => {
  const begun = Date.now();
  await assert.rejects(within(2 * limit_ms, call("/silent")), (wrong: Problem) => wrong.status === 0 && /within 5 seconds/.test(wrong.message));
  assert.ok(Date.now() - begun >= limit_ms - 100);
});

test("a change without an answer says that it may have been made", async () => {
  await assert.rejects(within(2 * limit_ms, call("/silent", { method: "POST", body: {} })), /may still do what you asked/);
});

test("an answer that stops in its middle ends at the limit", async () => {
  await assert.rejects(within(2 * limit_ms, call("/half")), (wrong: Problem) => wrong.status === 0 && /within 5 seconds/.test(wrong.message));
});

test("a long answer whose parts keep arriving has no limit as a whole", async () => {
  const lines: string[] = [];
  await eachLine("/slow", (line) => lines.push(line), new AbortController().signal);
  assert.deepEqual(lines, ["3", "2", "1", "0"]);
});

test("a stream of a head that hangs is marked as away, though its connection stays open", async () => {
  const closed: string[] = [];
  class Source {
    onopen?: () => void;
    readonly address: string;
    constructor(address: string) {
      this.address = address;
      setTimeout(() => this.onopen?.());
    }
    addEventListener() {}
    close() {
      closed.push(this.address);
    }
  }
  Object.assign(globalThis, {
    EventSource: Source,
    document: { hidden: false, addEventListener: () => {}, removeEventListener: () => {} },
  });
  silent = false;
  const end = follow({ path: "/v1/events", resumes: true, onData: () => {} });
  await new Promise((later) => setTimeout(later, 2_500));
  assert.equal(headAnswers(), true);
  silent = true;
  await new Promise((later) => setTimeout(later, 2_000 + limit_ms + 500));
  assert.equal(headAnswers(), false);
  assert.equal(closed.length, 1);
  end();
});

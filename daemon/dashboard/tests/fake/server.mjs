// A stand-in for the head, to work on views without a cluster: `npm run fake`, then http://127.0.0.1:7480. Its records
// are invented and grow while it runs. `npm run views` opens each view on it. FAKE_NODES=2000 makes a large cluster;
// FAKE_ROLE=viewer chooses another role.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { audit, attempts, checkpoints, cluster_keys, events, explanation, history, logs, metricsHistory, node_keys, nodes, queue, queues, quota, rank_keys, ranks, ranksHistory, reports, runs, status, timeline, tokens } from "./data.mjs";

const port = Number(process.env.FAKE_PORT ?? 7480);
const role = process.env.FAKE_ROLE ?? "admin";
const dist = join(fileURLToPath(new URL("../../dist/", import.meta.url)));
const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
export const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

let signedIn = false;

const json = (response, value, code = 200) => {
  response.writeHead(code, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
};
const page = (response, items, last = null) => json(response, { items: last ? items.slice(-Number(last)) : items, next_cursor: null, schema_version: 1 });
const refuse = (response, code, message) => json(response, { code: "x", message, next: "", problems: [] }, code);

function stream(request, response, first, next) {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  for (const [id, data] of first) response.write(`${id === null ? "" : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`);
  if (next === null) return response.end("event: end\ndata: {}\n\n");
  const timer = setInterval(() => {
    for (const [id, data] of next()) response.write(`${id === null ? "" : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`);
  }, 1000);
  request.on("close", () => clearInterval(timer));
}

function ofRun(request, response, run, verb, query, rank, what) {
  if (verb === undefined) return json(response, run);
  if (request.method === "POST") return json(response, verb === "stack" ? { attempt: run.attempt, marker: "Thread", ranks: [], away: [] } : run, 202);
  switch (verb) {
    case "attempts":
      return page(response, attempts(run));
    case "checkpoints":
      return page(response, checkpoints(run));
    case "explain":
      return json(response, explanation(run));
    case "ranks":
      if (rank === "history") return json(response, ranksHistory(run, query));
      if (what === "history") return json(response, history({ run_id: run.run_id, rank: Number(rank) }, rank_keys, query));
      return page(response, ranks(run));
    case "metrics": {
      if (rank === "history") return json(response, metricsHistory(run, query));
      let sent = Number(query.get("after") ?? 0);
      const rows = () => {
        const new_reports = reports(run, query.get("rank") ?? "0").filter((report) => report.position > sent);
        sent = new_reports.at(-1)?.position ?? sent;
        return new_reports.map((report) => [report.position, report]);
      };
      return stream(request, response, rows(), run.ended ? null : rows);
    }
    case "logs": {
      const all = logs(run, query);
      if (query.get("follow")) return stream(request, response, [], run.ended ? null : () => []);
      response.writeHead(200, { "content-type": "application/jsonl", "x-rtrain-logs-position": "end" });
      return response.end(all.map((line) => JSON.stringify(line)).join("\n"));
    }
    default:
      return refuse(response, 404, "no such route");
  }
}

function session(request, response) {
  if (request.method === "DELETE") signedIn = false;
  if (request.method === "POST") signedIn = true;
  if (!signedIn && request.method === "GET") return refuse(response, 401, "no session");
  json(response, { csrf: "c", user: "ada", role });
}

function api(request, response, url) {
  const [, , first, second, third, ...more] = url.pathname.split("/").map(decodeURIComponent);
  if (first === "session") return session(request, response);
  if (!signedIn) return refuse(response, 401, "no session");
  const after = (rows, key) => rows.filter((row) => row[key] > Number(url.searchParams.get("after") ?? 0));
  if (first === "audit") return page(response, after(audit(), "sequence"), url.searchParams.get("last"));
  const ofThis = (event) => [null, event.run_id].includes(url.searchParams.get("run"));
  const lists = { nodes, queue, queues, tokens };
  if (first === "status" && second === "history") return json(response, history({}, cluster_keys, url.searchParams));
  if (first === "quotas") return json(response, quota(second));
  if (first === "timeline") return json(response, timeline(url.searchParams));
  if (first === "status") return json(response, status());
  if (first === "nodes" && third === "history") return json(response, history({ node: second }, node_keys, url.searchParams));
  if (first === "nodes" && second) return json(response, nodes().find((node) => node.node === second));
  if (first === "runs" && second) {
    const run = runs().find((run) => run.run_id === second || run.name === second);
    return run ? ofRun(request, response, run, third, url.searchParams, ...more) : refuse(response, 404, `no run is called '${second}'`);
  }
  if (first === "runs") return page(response, runs());
  if (first === "events") {
    if (!url.searchParams.get("follow")) return page(response, after(events(), "id").filter(ofThis), url.searchParams.get("last"));
    let id = 10_000;
    return stream(request, response, [], () => (Math.random() < 0.3 ? [[++id, { ...events()[3], id, time: new Date().toISOString() }]].filter(([, event]) => ofThis(event)) : []));
  }
  if (lists[first]) return page(response, lists[first]());
  refuse(response, 404, "no such route");
}

createServer((request, response) => {
  const url = new URL(request.url, "http://x");
  response.setHeader("content-security-policy", policy);
  if (url.pathname === "/healthz") return json(response, { status: "ok", version: "0.1.0" });
  if (url.pathname.startsWith("/v1/")) return api(request, response, url);
  const file = normalize(url.pathname === "/" ? "/index.html" : url.pathname);
  readFile(join(dist, file)).then(
    (body) => {
      response.writeHead(200, { "content-type": types[file.slice(file.lastIndexOf("."))] ?? "application/octet-stream" });
      response.end(body);
    },
    () => refuse(response, 404, "no such file"),
  );
}).listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}`));

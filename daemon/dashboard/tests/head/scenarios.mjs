// The scenarios of tests/page/test_page.py in Chromium on a real head: scenarios.mjs NAME, with the cluster in
// PAGE_FACTS. A line "do ..." on standard output requests an action of the test; "wrong ..." reports a failure.
import { createServer } from "node:http";
import { once } from "node:events";
import { browse, expect, fact, facts, have, legible, open, pageIn, patience, shot, signIn, sound, until } from "./browser.mjs";
import { cluster } from "./cluster.mjs";
import { flood, flooded, long } from "./logs.mjs";
import { operates } from "./operators.mjs";
import { acts, expired, keyboard, roles } from "./people.mjs";
import { arranged } from "./runs.mjs";

const { runs, tokens } = facts;
const parts = ["", "/metrics", "/ranks", "/attempts", "/logs", "/checkpoints", "/events", "/spec"];
const every_view = {
  cluster: "", node: "nodes/node-1", runs: "runs", compare: `compare?runs=${runs.trains},${runs.failed}`, access: "access", pictured: `runs/${runs.spirals}`, ranks: `runs/${runs.spirals}/ranks`, waits: `runs/${runs.waits}`,
  ...Object.fromEntries(parts.map((part) => [`run${part.replace("/", "-")}`, `runs/${runs.trains}${part}`])),
  ...Object.fromEntries(parts.map((part) => [`failed${part.replace("/", "-")}`, `runs/${runs.failed}${part}`])),
};
const pictured = { cluster: "page-cluster", pictured: "page-run" };

async function views(browser) {
  for (const scheme of ["light", "dark"]) {
    const page = await pageIn(browser, { scheme });
    // the rules about colours only
    const rules = scheme === "light" ? {} : { runOnly: ["color-contrast", "link-in-text-block"] };
    await page.goto(facts.origin);
    await page.locator("input[name=token]").waitFor();
    await sound(page, `sign-in, ${scheme}`, rules);
    await signIn(page, tokens.admin);
    for (const [name, address] of Object.entries(every_view)) {
      await open(page, address);
      await page.waitForLoadState("networkidle", { timeout: 3_000 }).catch(() => {});  // live views are never idle
      if (pictured[name]) {
        await page.locator("main .panel").first().waitFor();
        await page.waitForTimeout(1_500);  // charts draw what has arrived
        await page.setViewportSize({ width: 1280, height: 1160 });
        await shot(page, `${pictured[name]}-${scheme}`);
        await page.setViewportSize({ width: 1280, height: 900 });
      }
      await sound(page, `${name}, ${scheme}`, rules);
      if (scheme === "light") await legible(page, name);
    }
    await page.context().close();
  }
}

// The views of the run contain its facts.
async function shownFacts(browser) {
  const page = await pageIn(browser);
  await signIn(page, tokens.admin, `runs/${runs.failed}/attempts`);
  await page.getByText("exit code 3").first().waitFor();
  await open(page, `runs/${runs.failed}/logs?attempt=all&error=1`);
  await page.locator(".log-line.marked.error").waitFor();
  await open(page, `runs/${runs.trains}/checkpoints`);
  await page.getByText("rtrain restore").first().waitFor();
  await open(page, `runs/${runs.trains}/ranks`);
  await page.getByRole("columnheader", { name: "CPUs in use" }).first().waitFor();
  await usageAndIntervals(page);
  await open(page, `runs/${runs.spirals}`);
  await page.getByText(/^About .* left\.$/).waitFor();
  await page.getByText(/ranks wait \d+ % of the time for rank 2 on node-/).waitFor();
  await page.getByText(/First failure: rank 1 on node-/).waitFor();
  await page.getByText("Attempt 2", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Table" }).click();
  const { newest, rows } = await tabled(page, await fact(page, runs.spirals, "last_report.metrics.step"));
  expect(rows === newest, `${rows} steps are shown of 1 to ${newest}, over two attempts`);
  await open(page, `runs/${runs.waits}`);
  await page.getByText("CPU").first().waitFor();
  await open(page, "");
  await page.getByRole("heading", { name: "Queues" }).waitFor();
  await open(page, "access");
  await page.getByText("signed in to the page").first().waitFor();
}

// Reads the table behind the chart as numbers: how many reports, the newest one, and those that ought to exist.
async function tabled(page, least) {
  const seen = await page.waitForFunction((least) => {
    const table = document.querySelector("figure.chart :is(table, .virtual[role=table])");
    const newest = Number(table?.querySelector("tbody td, [role=cell]")?.textContent.replaceAll(",", ""));
    return newest >= least ? { newest, rows: Number(table.getAttribute("aria-rowcount")) - 1 } : null;
  }, least, { ...patience, polling: 200 });
  return seen.jsonValue();
}

// The use of nodes and ranks is drawn. Each chart and the heat map have a table, and samples survive a change of the
// tab.
async function usageAndIntervals(page) {
  const rowsOf = async (chart) => {
    await chart.getByRole("button", { name: "Table" }).click();
    await chart.locator("tbody tr, .virtual-row").first().waitFor();
    return chart.locator("tbody tr, .virtual-row").count();
  };
  await open(page, "nodes/node-1");
  for (const title of ["CPUs in use", "Memory", "Network", "Disk"]) {
    const chart = page.locator("figure.chart", { has: page.getByText(title, { exact: true }) });
    expect((await rowsOf(chart)) > 0, `node: ${title} has no number`);
  }
  await open(page, `runs/${runs.spirals}/ranks?rank=2`);
  await page.getByRole("heading", { name: "What rank 2 used" }).waitFor();
  expect((await rowsOf(page.locator("figure.chart", { has: page.getByText("Memory", { exact: true }) }))) > 0, "rank 2: memory has no number");
  const heat = page.locator(".heat");
  const before = await rowsOf(heat);
  await heat.locator("canvas").press("End");
  await heat.locator("canvas").press("ArrowDown");
  await page.getByText(/^rank 1, .*against the median$/).waitFor();
  await heat.locator("canvas").press("ArrowDown");
  await page.getByText(/^rank 2, .*: \d+ ms, \+\d{2,} % against the median$/).waitFor();  // it is slow, and the others wait for it
  await page.getByText(/^Rank 2 on node-\d takes \d+ % longer than the median rank\. The others wait for it\.$/).waitFor();
  await heat.locator("canvas").press("ArrowUp");
  await heat.locator("canvas").press("Enter");
  await page.getByRole("heading", { name: "What rank 1 used" }).waitFor();
  await page.getByRole("link", { name: "Attempts" }).click();
  await page.getByRole("heading", { name: "Attempts" }).waitFor();
  await page.getByRole("link", { name: "Ranks" }).click();
  expect((await rowsOf(heat)) >= before, "another tab has forgotten the own times");
}

// The chart contains each report, before, during and after a restart of the head.
async function live(browser) {
  const page = await pageIn(browser, { expected: /^/ }); // while the head is away, requests fail
  await signIn(page, tokens.user, `runs/${runs.lives}`);
  const newest = () => fact(page, runs.lives, "last_report.index");
  const first = await page.evaluate(async (run) => (await (await fetch(`/v1/runs/${run}/metrics?limit=1`)).json()).items[0].index, runs.lives);
  await page.getByRole("button", { name: "Table" }).click();
  const whole = async (least, when) => {
    const { newest, rows } = await tabled(page, least);
    expect(rows === newest - first + 1, `${when}: ${rows} reports are shown, of ${first} to ${newest}`);
    return newest;
  };
  const before = await whole((await newest()) + 3, "before the restart");
  await have("kill the head");
  await page.getByText("Head away, retrying").waitFor();
  expect((await whole(before, "while the head is away")) >= before, "reports have gone");
  await have("start the head");
  await page.locator("header .live.good-text").waitFor();
  expect(await page.locator("header nav").isVisible(), "the session did not survive the head's restart");
  const after = await until("reports behind the restart", async () => {
    const index = await newest();
    return index > before ? index : 0;
  });
  await whole(after + 5, "after the restart");
}

async function hostile(browser) {
  // no run or node has that name
  const page = await pageIn(browser, { expected: /\/v1\/(session|(runs|nodes)\/%3C.*)$/ });
  await signIn(page, tokens.admin, `runs/${runs.hostile}/metrics`);
  await page.getByText(facts.hostile.metric).first().waitFor();
  await sound(page, "hostile metric");
  await open(page, `runs/${runs.hostile}/logs`);
  await page.getByText(facts.hostile.line).first().waitFor();
  await sound(page, "hostile line");
  await open(page, `runs/${runs.hostile}/spec`);
  await page.getByText(facts.hostile.label).first().waitFor();
  for (const address of ["runs", "", `runs/${runs.hostile}`, `runs/${encodeURIComponent(facts.hostile.label)}`, `nodes/${encodeURIComponent(facts.hostile.label)}`]) {
    await page.goto("about:blank");
    await page.goto(`${facts.origin}/#/${address}`);
    await page.locator("main").getByText(/\S/).first().waitFor();
    const ran = await page.evaluate(() => "owned" in globalThis || document.title === "owned");
    expect(!ran, `${address}: markup ran`);
  }
}

// A page of another origin in the user's browser: its requests change nothing and return nothing to it.
async function lured(browser) {
  const attacker = createServer((_, answer) => {
    answer.setHeader("content-type", "text/html");
    answer.end("<!doctype html><title>attacker</title><p>hello");
  }).listen(0, "localhost");
  await once(attacker, "listening");
  const page = await pageIn(browser, { expected: /^/, origin: "http" });
  await signIn(page, tokens.admin);
  const [cookie] = await page.context().cookies();
  expect(cookie.httpOnly && cookie.secure && cookie.sameSite === "Strict" && cookie.name.startsWith("__Host-"), `the cookie: ${JSON.stringify({ ...cookie, value: "" })}`);
  expect(!(await page.evaluate(() => document.cookie)).includes("rtrain"), "a script reads the cookie");
  await page.goto(`http://localhost:${attacker.address().port}/`);
  const read = await page.evaluate(async ([origin, run]) => {
    const out = [];
    const attempt = (path, options) => fetch(`${origin}${path}`, { credentials: "include", ...options }).then((answer) => answer.text(), () => "").then((text) => out.push(text));
    await attempt("/v1/runs");
    await attempt("/v1/session");
    await attempt(`/v1/runs/${run}/stop`, { method: "POST", mode: "no-cors", body: "{}" });
    await attempt("/v1/session", { method: "POST", mode: "no-cors", body: "{}" });
    const form = document.createElement("form");
    form.method = "post";
    form.action = `${origin}/v1/runs/${run}/stop`;
    form.target = "frame";
    const frame = document.createElement("iframe");
    frame.name = "frame";
    document.body.append(frame, form);
    form.submit();
    await new Promise((done) => (frame.onload = done));
    const page = document.createElement("iframe");
    page.src = origin;
    document.body.append(page);
    await new Promise((done) => (page.onload = done));
    return out;
  }, [facts.origin, runs.trains]);
  expect(read.every((text) => text === ""), `another site reads ${read}`);
  for (const frame of page.frames().slice(1)) expect((await frame.locator("header.bar").count()) === 0, "the page lies in another site's frame");
  attacker.close();
  await open(page, `runs/${runs.trains}`);
  expect(await page.locator("header nav").isVisible(), "the session has ended");
  const state = await page.evaluate(async (run) => (await (await fetch(`/v1/runs/${run}`)).json()).state, runs.trains);
  expect(state === "RUNNING", `another site's page has changed the state of the run to ${state}`);
}

async function proxy(browser) {
  const origin = new URL(facts.link).origin;
  const first = await pageIn(browser, { origin });
  await first.goto(facts.link);
  await first.locator("header nav").waitFor();
  expect(first.url().startsWith(`${origin}/`) && !first.url().includes("/open/"), "the link stays in the address");
  const [cookie, ...others] = await first.context().cookies();
  expect(others.length === 0 && cookie.httpOnly && cookie.sameSite === "Strict", `the proxy's cookies: ${JSON.stringify(others)}`);
  expect(!cookie.name.includes("Host"), "the browser has the cookie of the head's session");
  await first.goto(`${origin}/#/runs/${runs.proxied}`);
  await first.getByRole("button", { name: "Stop", exact: true }).click();
  await first.getByLabel("now: a checkpoint").check();
  await first.getByRole("button", { name: "Stop the run" }).click();
  await first.getByText("Stopped").first().waitFor();
  await sound(first, "through the proxy");
  for (const [address, status] of [[facts.link, 403], [`${origin}/`, 401], [`${origin}/v1/runs`, 401], [`${origin}/open/0`, 403]]) {
    const other = await pageIn(browser, { expected: /^/, origin });
    const answer = await other.goto(address);
    expect(answer.status() === status, `${address}: another browser gets ${answer.status()}`);
    await other.context().close();
  }
  const lure = await first.context().newPage();
  await lure.goto(origin.replace("127.0.0.1", "localhost")).then((answer) => expect(answer.status() === 403, `another name gets ${answer.status()}`), () => {});
  await first.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await first.bringToFront();
  await first.getByRole("button", { name: "Copy the address of this view" }).click();
  const shared = await first.evaluate(() => navigator.clipboard.readText());
  expect(shared === `${facts.origin}/#/runs/${runs.proxied}`, `the address to share is ${shared}`);
}

const scenarios = { views, shownFacts, cluster, arranged, live, hostile, long, flood, flooded, roles, acts, operates, keyboard, expired, lured, proxy };
await browse(scenarios[process.argv[2]]);

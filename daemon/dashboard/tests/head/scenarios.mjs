// What tests/page/test_page.py has Chromium do on a real head: scenarios.mjs NAME, with the cluster in PAGE_FACTS. A
// line "do ..." on standard output asks the test for something, "wrong ..." is a failure.
import { createServer } from "node:http";
import { once } from "node:events";
import { browse, expect, facts, have, narrow, open, pageIn, shot, signIn, sound } from "./browser.mjs";

const { runs, tokens } = facts;
const parts = ["", "/metrics", "/ranks", "/attempts", "/logs", "/checkpoints", "/events", "/spec"];
const every_view = {
  cluster: "", node: "nodes/node-1", runs: "runs", compare: `compare?runs=${runs.trains},${runs.failed}`, access: "access", waits: `runs/${runs.waits}`,
  ...Object.fromEntries(parts.map((part) => [`run${part.replace("/", "-")}`, `runs/${runs.trains}${part}`])),
  ...Object.fromEntries(parts.map((part) => [`failed${part.replace("/", "-")}`, `runs/${runs.failed}${part}`])),
};
const pictured = { cluster: "page-cluster", run: "page-run" };

async function views(browser) {
  for (const scheme of ["light", "dark"]) {
    const page = await pageIn(browser, { scheme });
    await page.goto(facts.origin);
    await page.locator("input[name=token]").waitFor();
    await sound(page, `sign-in, ${scheme}`);
    await signIn(page, tokens.admin);
    for (const [name, address] of Object.entries(every_view)) {
      await open(page, address);
      await page.waitForLoadState("networkidle", { timeout: 3_000 }).catch(() => {}); // live views are never idle
      if (pictured[name]) {
        await page.locator("main .panel").first().waitFor();
        await page.waitForTimeout(1_500); // charts draw what has come
        await shot(page, `${pictured[name]}-${scheme}`);
      }
      await sound(page, `${name}, ${scheme}`);
      if (scheme === "light") await narrow(page, name);
    }
    await page.context().close();
  }
}

// The facts of the run stand on its views.
async function told(browser) {
  const page = await pageIn(browser);
  await signIn(page, tokens.admin, `runs/${runs.failed}/attempts`);
  await page.getByText("exit code 3").first().waitFor();
  await open(page, `runs/${runs.failed}/logs?attempt=all&error=1`);
  await page.locator(".log-line.marked.error").waitFor();
  await open(page, `runs/${runs.trains}/checkpoints`);
  await page.getByText("rtrain restore").first().waitFor();
  await open(page, `runs/${runs.trains}/ranks`);
  await page.getByRole("columnheader", { name: "CPUs in use" }).first().waitFor();
  await open(page, `runs/${runs.waits}`);
  await page.getByText("CPU").first().waitFor();
  await open(page, "");
  await page.getByRole("heading", { name: "Queues" }).waitFor();
  await open(page, "access");
  await page.getByText("POST /v1/session").first().waitFor();
}

async function live(browser) {
  const page = await pageIn(browser, { expected: /^/ }); // while the head is away, requests fail
  await signIn(page, tokens.admin, `runs/${runs.trains}`);
  const step = async () => Number((await page.evaluate(async (run) => (await (await fetch(`/v1/runs/${run}`)).json()).last_report?.metrics.step, runs.trains)) ?? -1);
  const lastDrawn = () => page.evaluate(() => document.querySelector("main")?.innerText ?? "");
  const first = await lastDrawn();
  await page.waitForFunction((before) => (document.querySelector("main")?.innerText ?? "") !== before, first);
  const before = await step();
  await have("kill the head");
  await page.getByText("Head away, retrying").waitFor();
  await have("start the head");
  await page.locator("header .live.good-text").waitFor({ timeout: 60_000 });
  expect(await page.locator("header nav").isVisible(), "the session did not survive the head's restart");
  await page.waitForFunction(async ([run, least]) => (await (await fetch(`/v1/runs/${run}`)).json()).last_report?.metrics.step > least, [runs.trains, before], { timeout: 60_000, polling: 500 });
  const stopped = await lastDrawn();
  await page.waitForFunction((was) => (document.querySelector("main")?.innerText ?? "") !== was, stopped, { timeout: 60_000 });
}

async function hostile(browser) {
  const page = await pageIn(browser, { expected: /\/v1\/(session|(runs|nodes)\/%3C.*)$/ }); // there is no run or node of that name
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

async function long(browser) {
  const page = await pageIn(browser);
  await signIn(page, tokens.admin, `runs/${runs.long}/logs`);
  await page.getByText("50,000 lines").waitFor({ timeout: 60_000 });
  const list = page.locator(".virtual[role=log]");
  const scrolled = await list.evaluate(async (element) => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const seen = new Set();
    let rows = 0;
    let longest = 0;
    for (let at = 0; at <= 100; at += 1) {
      const began = performance.now();
      element.scrollTop = ((element.scrollHeight - element.clientHeight) * at) / 100;
      await frame();
      await frame();
      longest = Math.max(longest, performance.now() - began);
      rows = Math.max(rows, element.querySelectorAll(".virtual-row").length);
      for (const line of element.querySelectorAll(".log-text")) seen.add(line.textContent);
    }
    return { rows, longest, seen: seen.size, last: element.innerText.includes("line 49999") };
  });
  console.log(`50,000 lines: ${scrolled.rows} rows in the document, the longest step ${Math.round(scrolled.longest)} ms`);
  expect(scrolled.rows < 200, `${scrolled.rows} rows are in the document`);
  expect(scrolled.seen > 3_000 && scrolled.last, "scrolling does not show the lines");
  await page.getByPlaceholder("text, or /expression/i").fill("line 2500");
  await page.getByText("11 lines of 50,000").waitFor();
  await page.getByPlaceholder("text, or /expression/i").fill("");
  await page.getByRole("button", { name: "First error" }).click();
  await page.locator(".log-line.marked.error").waitFor();
}

const filter = (page, text) => page.getByPlaceholder("text, or /expression/i").fill(text);
const requestsOf = (page, part) => {
  const asked = [];
  page.on("request", (request) => request.url().includes(part) && asked.push(request.url()));
  return asked;
};

// Waits for lines behind `least`, and looks whether each of the numbered lines stands there once. Returns the last one.
async function ticks(page, least) {
  const numbered = await page.waitForFunction((least) => {
    const last = [...document.querySelectorAll(".log-text")].at(-1)?.textContent ?? "";
    const count = Number(/^([\d,]+) lines of/.exec(document.querySelector(".panel-head [role=status]")?.textContent ?? "")?.[1]?.replaceAll(",", ""));
    const tick = Number(/^tick (\d+)$/.exec(last)?.[1]);
    return tick > least ? { tick, count } : null;
  }, least, { timeout: 60_000, polling: 200 });
  const { tick, count } = await numbered.jsonValue();
  expect(count === tick + 1, `${count} numbered lines are there when the last one is number ${tick}`);
  return tick;
}

// A run that goes on writing, with more lines than a stream sends to whoever is far behind.
async function flood(browser) {
  const page = await pageIn(browser, { expected: /^/ }); // while the head is away, requests fail
  const asked = requestsOf(page, `/${runs.flood}/logs?`);
  const whole = `${facts.flood_lines.toLocaleString("en-US")} lines of`;
  await signIn(page, tokens.user, `runs/${runs.flood}/logs`);
  await filter(page, "/^flood \\d+ /");
  await page.getByText(whole).waitFor({ timeout: 60_000 });
  await filter(page, "left out of the live stream");
  await page.getByText("No line fits the filter.").waitFor();
  await filter(page, "/^tick /");
  let last = await ticks(page, 2);
  await page.getByRole("link", { name: "Attempts" }).click();
  await page.getByRole("heading", { name: "Attempts" }).waitFor();
  await page.getByRole("link", { name: "Logs" }).click();
  await filter(page, "/^tick /");
  last = await ticks(page, last);
  await have("kill the head");
  await page.getByText("Head away, retrying").waitFor();
  await have("start the head");
  last = await ticks(page, last + 3);
  await filter(page, "/^flood \\d+ /");
  await page.getByText(whole).waitFor();
  const read = asked.filter((one) => one.includes("tail="));
  expect(read.length === 1, `the last lines are asked for ${read.length} times`);
  expect(asked.filter((one) => one.includes("follow=true")).every((one) => one.includes("after=")), "a stream begins anew");
}

async function flooded(browser) {
  const page = await pageIn(browser);
  const asked = requestsOf(page, `/${runs.flooded}/logs?`);
  await signIn(page, tokens.user, `runs/${runs.flooded}/logs`);
  await page.getByText(`${facts.page_lines.toLocaleString("en-US")} lines, older ones left out`).waitFor({ timeout: 120_000 });
  expect(asked.length > 0 && asked.every((one) => one.includes(`tail=${facts.page_lines + 1}`)), `it asks for ${asked}`);
  expect((await page.locator(".log-text").last().innerText()).startsWith(`flood ${facts.page_lines + 19_999} `), "the last line is not in sight");
}

async function roles(browser) {
  const sees = async (token, address) => {
    const page = await pageIn(browser);
    await signIn(page, token, address);
    await page.locator("main h1").first().waitFor();
    return page;
  };
  const stop = (page) => page.getByRole("button", { name: "Stop", exact: true });
  const admin = (page) => page.getByRole("link", { name: "Access" });
  for (const [who, may] of [["viewer", false], ["other", false], ["user", true], ["admin", true]]) {
    const page = await sees(tokens[who], `runs/${runs.trains}`);
    await page.locator(".tabs").waitFor();
    expect((await stop(page).count()) === (may ? 1 : 0), `${who}: the button that stops`);
    expect((await admin(page).count()) === (who === "admin" ? 1 : 0), `${who}: the view for admins`);
    await open(page, `runs/${runs.trains}/logs`);
    if (may) await page.locator(".log-line").first().waitFor();
    else await page.getByText("Its logs are shown to").waitFor();
    await sound(page, `${who}: logs`);
    await page.context().close();
  }
  const page = await sees(tokens.user, `runs/${runs.stops}`);
  await stop(page).click();
  await page.getByLabel("now: a checkpoint").check();
  await page.getByRole("button", { name: "Stop the run" }).click();
  await page.getByText("Stopped").first().waitFor();
}

async function expired(browser) {
  const page = await pageIn(browser, { expected: /^/ }); // 401 is what this is about
  await signIn(page, tokens.passing, `runs/${runs.trains}/ranks`);
  await have("revoke the passing token");
  await page.getByText("Your session has ended").waitFor();
  expect(page.url().endsWith(`runs/${runs.trains}/ranks`), "the address did not stay");
  await page.locator("input[name=token]").fill(tokens.passing);
  await page.keyboard.press("Enter");
  await page.getByText("was revoked").waitFor();
  await page.locator("input[name=token]").fill(tokens.admin);
  await page.keyboard.press("Enter");
  await page.locator(".tabs").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.locator("input[name=token]").waitFor();
  expect((await page.context().cookies()).length === 0, "a cookie stayed behind a sign-out");
}

// A page of another origin, with the person's browser: it can ask, and gets nothing done and nothing to read.
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
  expect(state === "RUNNING", `another site's page has made the run ${state}`);
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

const scenarios = { views, told, live, hostile, long, flood, flooded, roles, expired, lured, proxy };
await browse(scenarios[process.argv[2]]);

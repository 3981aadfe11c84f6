// Chromium on a real head, for scenarios.mjs. Each page is watched for errors, foreign requests and other things that
// it must not do.
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { illegible } from "../legible.mjs";

export const facts = JSON.parse(process.env.PAGE_FACTS);
export const patience = { timeout: Number(process.env.PAGE_PATIENCE_MS ?? 180_000) };  // for a machine that is busy with other work
const wrong = [];
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

export function expect(holds, what) {
  if (!holds) wrong.push(what);
}

// Makes the test around this process change the cluster, and waits until that is done.
export async function have(what) {
  console.log(`do ${what}`);
  const { value } = await lines.next();
  if (value !== "done") throw new Error(`${what}: ${value}`);
}

export async function browse(scenario) {
  const browser = await chromium.connect(facts.browser);
  try {
    await scenario(browser);
  } finally {
    await browser.close();
  }
  for (const failure of wrong) console.log(`wrong ${failure}`);
  process.exit(wrong.length === 0 ? 0 : 1);
}

// `expected`: addresses whose failure the scenario provokes.
export async function pageIn(browser, { scheme = "light", expected = /\/v1\/session$/, origin = facts.origin, view = { width: 1280, height: 900 } } = {}) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, colorScheme: scheme, viewport: view, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.setDefaultTimeout(patience.timeout);
  page.on("pageerror", (error) => wrong.push(`${page.url()}: ${error.message}`));
  page.on("console", (line) => line.type() === "error" && !expected.test(line.location().url) && wrong.push(`${page.url()}: ${line.text()} (${line.location().url})`));
  page.on("request", (request) => request.url().startsWith("http") && !request.url().startsWith(origin) && wrong.push(`${page.url()} requests ${request.url()}`));
  page.on("dialog", (dialog) => {
    wrong.push(`${page.url()} opens a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.addInitScript({ path: createRequire(import.meta.url).resolve("axe-core/axe.min.js") });
  return page;
}

export async function signIn(page, token, address = "") {
  await page.goto(`${facts.origin}/#/${address}`);
  await page.locator("input[name=token]").fill(token);
  await page.keyboard.press("Enter");
  await page.locator("header nav").waitFor();
}

export async function open(page, address) {
  await page.goto("about:blank");
  await page.goto(`${facts.origin}/#/${address}`);
  await page.locator("main h1").first().waitFor();
}

// Calls `condition` until it returns a true value, and returns that. waitForFunction would accept a promise as true.
export async function until(what, condition, seconds = patience.timeout / 1000) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await new Promise((done) => setTimeout(done, 200))) {
    const value = await condition();
    if (value) return value;
  }
  throw new Error(`waited ${seconds} s for ${what}`);
}

// Returns a fact of a run from the head, read with this page's session: "last_report.index".
export const fact = (page, run, name) =>
  page.evaluate(async ([run, name]) => name.split(".").reduce((value, part) => value?.[part], await (await fetch(`/v1/runs/${run}`)).json()), [run, name]);

// Collects the addresses with `part` that the page requests from now on.
export function requestsOf(page, part) {
  const asked = [];
  page.on("request", (request) => request.url().includes(part) && asked.push(request.url()));
  return asked;
}

export async function sound(page, name, rules = {}) {
  const alert = page.locator("main .note.bad[role=alert]");
  if (await alert.count()) expect(false, `${name}: ${await alert.first().innerText()}`);
  const seen = await page.evaluate(() => ({ title: document.title, ran: "owned" in globalThis, markup: document.querySelectorAll("main img, main script, main iframe").length }));
  expect(seen.title !== "owned" && !seen.ran && seen.markup === 0, `${name}: markup of a name or line has become a part of the page`);
  const text = await page.locator("main").innerText();
  const broken = /\b(NaN|undefined|\[object Object\])\b/.exec(text);
  expect(broken === null, `${name}: it says ${broken?.[0]}`);
  const report = await page.evaluate((rules) => globalThis.axe.run(document, { resultTypes: ["violations"], ...rules }), rules);
  for (const violation of report.violations)
    if (violation.impact === "serious" || violation.impact === "critical") expect(false, `${name}: axe ${violation.id}: ${violation.nodes[0].html.slice(0, 200)}`);
}

// Checks that words are whole and rows are low, at 1,280 px and on a telephone's screen. There nothing scrolls sideways
// but charts, each in its own box.
export async function legible(page, name) {
  for (const text of await illegible(page, false)) expect(false, `${name}: ${text}`);
  const before = page.viewportSize();
  await page.setViewportSize({ width: 360, height: 740 });
  await page.waitForFunction(() => document.documentElement.clientWidth <= 360);
  const pixels = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  expect(pixels <= 0, `${name}: ${pixels} px wider than a screen of 360 px`);
  for (const text of await illegible(page, true)) expect(false, `${name}, 360 px: ${text}`);
  await page.setViewportSize(before);
}

export const shot = (page, name) => (facts.shots ? page.screenshot({ path: join(facts.shots, `${name}.png`) }) : null);

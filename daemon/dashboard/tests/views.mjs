// Opens each view in Chromium on the stand-in of the head: `npm run build && npm run views`. It fails when a view
// throws, asks for another origin, breaks the content policy, runs markup of a name, has a serious finding of axe, is
// wider than a screen of 360 px, or breaks words.
// CHROMIUM names the browser, SHOTS a folder for a picture of each view.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { illegible } from "./legible.mjs";

const views = {
  cluster: "", node: "nodes/gpu-01", runs: "runs", overview: "runs/run-12", waits: "runs/run-14", metrics: "runs/run-12/metrics", ranks: "runs/run-12/ranks",
  attempts: "runs/run-12/attempts", logs: "runs/run-12/logs", checkpoints: "runs/run-12/checkpoints", events: "runs/run-12/events", spec: "runs/run-12/spec",
  hostile: "runs/run-11", compare: "compare?runs=run-12,run-13", access: "access",
};
// Addresses that the stand-in does not serve, and the view that shows it.
const missing = { queues: "", timeline: "", ranks: "runs/run-12/ranks" };
// Facts that only nodes with GPUs report, as a view shows them.
const words = {
  cluster: ["GPU mem.", "GPUs allocated", "GPUs of the cluster", "Runs on nodes", "Disk of the storage root"], node: ["Processes that belong to no run compute on GPU 6 (2).", "Foreign processes", "GPU utilisation"],
  ranks: ["Rank 5 on gpu-02 takes 56 % longer than the median rank. The others wait for it.", "GPUs busy", "GPU memory", "What rank 0 used"],
};
const shots = process.env.SHOTS;
const port = process.env.FAKE_PORT ?? "7480";
const wrong = [];

const inSight = (page) =>
  page.evaluate(() => {
    const box = document.querySelector(".virtual").getBoundingClientRect();
    return [...document.querySelectorAll(".log-line")].some((line) => line.getBoundingClientRect().top >= box.top && line.getBoundingClientRect().top < box.bottom);
  });

const beyond = (page) => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);

const legible = async (page, name) => {
  const { width } = page.viewportSize();
  for (const text of await illegible(page, width < 640)) wrong.push(`${name}, ${width} px: ${text}`);
};

// Checks that on a telephone's screen nothing scrolls sideways but charts, each in its own box, and that all can be read.
async function narrow(page, name) {
  const before = page.viewportSize();
  await page.setViewportSize({ width: 360, height: 740 });
  await page.waitForTimeout(200);
  const pixels = await beyond(page);
  if (pixels > 0) wrong.push(`${name}: ${pixels} px wider than a screen of 360 px`);
  await legible(page, name);
  if (shots) await page.screenshot({ path: join(shots, `${name}-narrow.png`), fullPage: true });
  await page.setViewportSize(before);
}

async function open(page, name, address) {
  await page.goto("about:blank");
  await page.goto(`http://127.0.0.1:${port}/#/${address}`);
  await page.locator("main h1").first().waitFor({ timeout: 10_000 });
  await page.waitForTimeout(1_500);
  if (shots) await page.screenshot({ path: join(shots, `${name}.png`) });
  for (const text of words[name] ?? []) if (!(await page.getByText(text, { exact: true }).first().isVisible())) wrong.push(`${name}: it does not say ${text}`);
  if (name === "logs" && !(await inSight(page))) wrong.push("logs: no line is in sight");
  if ((await page.title()) === "owned") wrong.push(`${name}: markup of a name was run`);
  if (await page.locator("main .note.bad[role=alert]").count()) wrong.push(`${name}: ${await page.locator("main .note.bad[role=alert]").first().innerText()}`);
  const report = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  for (const violation of report.violations)
    if (violation.impact === "serious" || violation.impact === "critical") wrong.push(`${name}: axe ${violation.id}: ${violation.nodes[0].html.slice(0, 160)}`);
  await legible(page, name);
  await narrow(page, name);
}

// A map of many nodes shows the use and memory of GPUs: the two drawings differ.
async function mapped(page) {
  const drawings = [];
  for (const facts of [{ utilization_ratio: 0.1, memory_used: 0 }, { utilization_ratio: 0.9, memory_used: 0 }, { utilization_ratio: 0.9, memory_used: 8e10 }]) {
    await page.route("**/v1/nodes?*", async (asked) => {
      const { items } = await (await asked.fetch()).json();
      const [first] = items;
      const gpu_devices = first.gpu_devices.map((device) => ({ ...device, ...facts }));
      await asked.fulfill({ json: { items: Array.from({ length: 400 }, (_, at) => ({ ...first, node: `node-${at}`, gpu_devices })), next_cursor: null } });
    });
    await page.goto("about:blank");
    await page.goto(`http://127.0.0.1:${port}/#/`);
    await page.locator(".map canvas").waitFor();
    await page.waitForFunction(() => performance.getEntriesByName("draw-nodes").length > 0);
    drawings.push(await page.locator(".map canvas").evaluate((canvas) => canvas.toDataURL()));
    await page.unroute("**/v1/nodes?*");
  }
  if (new Set(drawings).size !== 3) wrong.push("the map draws neither how busy GPUs are nor their memory");
}

const head = spawn(process.execPath, [fileURLToPath(new URL("fake/server.mjs", import.meta.url))], { env: { ...process.env, FAKE_PORT: port, FAKE_LINES: "5000" }, stdio: ["ignore", "pipe", "inherit"] });
let browser;
try {
  await once(head.stdout, "data");
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  let now = "sign_in";
  page.on("pageerror", (error) => wrong.push(`${now}: ${error.message}`));
  page.on("console", (line) => line.type() === "error" && !/\/(session|queues|ranks|timeline)/.test(line.location().url) && wrong.push(`${now}: ${line.text()} (${line.location().url})`));
  page.on("request", (request) => new URL(request.url()).host !== `127.0.0.1:${port}` && wrong.push(`${now}: requests ${request.url()}`));
  await page.addInitScript({ path: createRequire(import.meta.url).resolve("axe-core/axe.min.js") });
  await page.goto(`http://127.0.0.1:${port}/`);
  await page.locator("main input").first().fill("a-token");
  if (shots) await page.screenshot({ path: join(shots, "sign_in.png") });
  await page.keyboard.press("Enter");
  for (const [name, address] of Object.entries(views)) {
    now = name;
    await open(page, name, address);
  }
  now = "map";
  await mapped(page);
  for (const [route, address] of Object.entries(missing)) {
    now = `without ${route}`;
    await page.route(`**/v1/{**/,}${route}*`, (asked) => asked.fulfill({ status: 404, json: { code: "not_found", message: "no such route" } }));
    await open(page, now, `${address}?without`);
    if (!(await page.getByText("This head does not tell").first().isVisible())) wrong.push(`${now}: the view does not say what is missing`);
  }
} finally {
  await browser?.close();
  head.kill();
}
console.log(wrong.length ? wrong.join("\n") : `${Object.keys(views).length} views, nothing wrong`);
process.exit(wrong.length ? 1 : 0);

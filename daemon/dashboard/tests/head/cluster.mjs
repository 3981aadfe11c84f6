// The cluster in Chromium on a real head: its use over time, which run held which GPU and when, and the head's health.
import { expect, facts, open, pageIn, signIn, sound, until } from "./browser.mjs";

const { tokens } = facts;

const chartOf = (page, title) => page.locator("figure.chart", { has: page.getByText(title, { exact: true }) });
const panelOf = (page, title) => page.locator("section.panel", { has: page.getByRole("heading", { name: title, exact: true }) });

export async function cluster(browser) {
  const page = await pageIn(browser);
  await signIn(page, tokens.viewer);
  await useOverTime(page);
  await runsOnNodes(page);
  await open(page, "");
  const health = panelOf(page, "Head and storage");
  await health.getByText(/ used, .* free$/).first().waitFor();
  expect((await health.getByText("unknown").count()) === 0, "the head knows no disk");
  await page.getByRole("heading", { name: "GPUs allocated" }).waitFor();
  await sound(page, "cluster of a viewer");
  await page.context().close();
}

async function useOverTime(page) {
  for (const [title, line] of [["GPUs of the cluster", "allocated"], ["CPUs of the cluster", "used"], ["Runs", "waiting"]]) {
    const chart = chartOf(page, title);
    await chart.getByRole("button", { name: "Table" }).click();
    await chart.getByRole("columnheader", { name: line, exact: true }).waitFor();
    await until(`a number of ${title}`, async () => Number((await chart.locator(`[data-name="${line}"]`).first().innerText()).replaceAll(",", "")) > 0);
  }
  const use = panelOf(page, "Use over time");
  await use.getByLabel("Last").selectOption("week");
  await page.waitForURL(/last=7d/);
  await chartOf(page, "Runs").waitFor();
}

async function runsOnNodes(page) {
  await open(page, "");
  const panel = panelOf(page, "Runs on nodes");
  await panel.getByRole("button", { name: "Table" }).click();
  const rows = panel.getByRole("row", { name: /\btrains\b/ });
  await rows.first().waitFor();
  const seen = await rows.evaluateAll((all) => all.map((row) => Object.fromEntries([...row.querySelectorAll("[data-name]")].map((cell) => [cell.dataset.name, cell.textContent.trim()]))));
  expect(seen.length === 6 && seen.every((row) => row.User === "user" && row.Until === "now" && /^node-\d$/.test(row.Node)), `trains holds six GPUs: ${JSON.stringify(seen)}`);
  expect(new Set(seen.map((row) => `${row.Node} ${row.GPU}`)).size === 6, "a GPU is held twice by one run");
  await panel.getByRole("row", { name: /\bfails\b/ }).first().waitFor();  // it has ended
  const span = () => page.evaluate(() => Number(new URLSearchParams(location.hash.split("?")[1]).get("span")));
  await panel.getByRole("button", { name: "Zoom in" }).click();
  expect((await span()) === 12 * 3_600_000, `zoomed in, the span is ${await span()} ms`);
  await panel.getByRole("button", { name: "Earlier" }).click();
  await panel.getByText("No run was on these nodes.").first().waitFor();
  await panel.getByRole("button", { name: "Now" }).click();
  await panel.getByLabel("Span").selectOption("hour");
  await rows.first().waitFor();
  const chart = panel.locator("canvas");
  await chart.press("Home");
  await panel.getByText(/, attempt \d+, by user, on (GPU \d of )?node-\d: /).waitFor();
  await chart.press("Enter");
  await page.locator(".tabs").waitFor();
}

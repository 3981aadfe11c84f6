// The table of runs in Chromium on a real head: a driver with its runs, an array, the choice of columns, and the end of
// several runs at once.
import { expect, fact, facts, open, pageIn, signIn, sound, until } from "./browser.mjs";

const { runs, tokens } = facts;

const header = (page, name) => page.getByRole("columnheader", { name, exact: true });

export async function arranged(browser) {
  const page = await pageIn(browser);
  await signIn(page, tokens.user, "runs");
  await driverWithRuns(page);
  await columns(page);
  await stopsSeveral(page);
  await sound(page, "runs");
  await page.context().close();
}

async function driverWithRuns(page) {
  const actor = page.getByRole("link", { name: /^Counter-/ });
  const shows = page.getByRole("button", { name: "Show 2 runs of drives" });
  await shows.waitFor();
  expect((await actor.count()) === 0, "the runs of a driver are shown before they are asked for");
  await shows.click();
  await actor.waitFor();
  const kind = (name) => page.getByRole("row", { name }).locator(".tag").innerText();
  expect((await kind(/Counter-/)) === "actor" && (await kind(/square-/)) === "task", "remote calls and actors are not shown as such");
  await actor.click();
  await page.getByRole("button", { name: "Stop", exact: true }).waitFor();
  for (const name of ["Checkpoint now", "Resize"]) expect((await page.getByRole("button", { name, exact: true }).count()) === 0, `an actor has the button ${name}`);
  await page.getByRole("link", { name: runs.drives, exact: true }).click();
  await page.getByRole("heading", { name: "Runs that it has submitted" }).waitFor();
  await page.getByRole("link", { name: /^square-/ }).waitFor();
}

async function columns(page) {
  await open(page, "runs?group=none");
  await page.getByRole("link", { name: "member-1", exact: true }).waitFor();
  expect((await header(page, "Priority").count()) === 0, "all columns are shown at once");
  await page.getByText("Columns", { exact: true }).click();
  for (const name of ["Priority", "Labels", "GPUs", "Reason", "Progress"]) await page.getByLabel(name, { exact: true }).check();
  await page.getByLabel("Took", { exact: true }).uncheck();
  await header(page, "Took").waitFor({ state: "detached" });
  await page.getByText("Columns", { exact: true }).click();
  const first = async () => (await page.locator("tbody tr [data-name=Run]").first().innerText()).split("\n")[0];
  await header(page, "Priority").getByRole("button").click();
  await header(page, "Priority").getByRole("button").click();
  expect((await first()).startsWith("member-"), `the run with the highest priority is not the first: ${await first()}`);
  expect((await page.getByRole("row", { name: /member-1/ }).locator("[data-name=Labels]").innerText()) === "team=grids", "the label is not shown");
  await page.reload();
  await header(page, "Priority").waitFor();  // the address keeps the columns
}

async function stopsSeveral(page) {
  await open(page, "runs");
  await page.getByLabel("Choose all of array member").check();
  await page.getByRole("button", { name: "Stop 2", exact: true }).click();
  await page.getByRole("dialog").getByText("member-2").waitFor();
  await page.getByLabel("without a grace period").check();
  await page.getByRole("button", { name: "Stop 2 runs" }).click();
  await page.locator("dialog").waitFor({ state: "detached" });
  for (const name of ["member-1", "member-2"]) await until(`the end of ${name}`, async () => (await fact(page, name, "state")) === "STOPPED");
}

// Actions of users, by role and by keyboard only, in Chromium on a real head.
import { expect, fact, facts, have, legible, open, pageIn, signIn, sound, until } from "./browser.mjs";

const { runs, tokens } = facts;

export async function roles(browser) {
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
    for (const name of ["Stacks", "Checkpoint now", "Resize", "Priority", "Stop"])
      expect((await page.getByRole("button", { name, exact: true }).count()) === (may ? 1 : 0), `${who}: the button ${name}`);
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

// Each button has its effect. The run writes no checkpoint unless one is requested.
export async function acts(browser) {
  const page = await pageIn(browser);
  await signIn(page, tokens.user, `runs/${runs.asked}`);
  const press = async (name, confirm) => {
    await page.getByRole("button", { name, exact: true }).click();
    await page.getByRole("dialog").waitFor();
    await page.getByRole("button", { name: confirm, exact: true }).click();
    await page.locator("dialog").waitFor({ state: "detached" });  // a closed dialog loses its role before it is removed
  };
  const becomes = (name, value) => until(`${name} to be ${value}`, async () => (await fact(page, runs.asked, name)) === value);
  expect((await fact(page, runs.asked, "checkpoints")) === 0, "the run has a checkpoint that nobody requested");
  await press("Checkpoint now", "Request it");
  await becomes("checkpoints", 1);
  await page.getByRole("link", { name: "Checkpoints" }).click();
  await page.getByText(/^rtrain restore /).waitFor();
  await press("Stacks", "Write them");
  await page.locator(".log-line").first().waitFor();
  expect(new URL(page.url()).hash.includes("/logs?"), `the logs do not open behind the stacks: ${page.url()}`);
  await page.getByPlaceholder("text, or /expression/i").fill("asked.py");
  await page.locator(".log-line").first().waitFor();
  await page.getByRole("button", { name: "Resize", exact: true }).click();
  await page.getByLabel("Workers").fill("0");
  await page.getByRole("button", { name: "Resize the run" }).click();
  expect(await page.getByRole("dialog").isVisible(), "a run of no workers is asked for");
  await page.getByLabel("Workers").fill("1");
  await page.getByRole("button", { name: "Resize the run" }).click();
  await page.locator("dialog").waitFor({ state: "detached" });  // a closed dialog loses its role before it is removed
  await becomes("attempt", 2);
  await becomes("state", "RUNNING");
  await page.getByRole("link", { name: "Attempts" }).click();
  await page.getByText("Attempt 2", { exact: true }).waitFor();
  await page.getByText(/^1 rank on /).waitFor();
  await sound(page, "after its buttons");
  await page.getByRole("button", { name: "Priority", exact: true }).click();
  await page.getByLabel("Priority, 0 to 100").fill("95");
  await sound(page, "the question before a priority");
  await page.getByRole("button", { name: "Change the priority" }).click();
  await page.locator("dialog").waitFor({ state: "detached" });
  await becomes("priority", 95);
  await checkpoints(page, press);
}

// A checkpoint is verified, and its run goes on from it once it has ended.
async function checkpoints(page, press) {
  await page.getByRole("link", { name: "Checkpoints" }).click();
  await page.getByText("not verified").first().waitFor();
  const verify = page.getByRole("button", { name: /^Verify / }).first();
  await verify.click();
  await sound(page, "the question before a verification");
  await page.getByRole("button", { name: "Verify its files" }).click();
  await page.locator("dialog").waitFor({ state: "detached" });
  await page.getByText("intact").first().waitFor();
  await legible(page, "checkpoints");
  expect((await page.getByRole("button", { name: /^Restore / }).count()) === 0, "a run that trains is restored");
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByLabel("now: a checkpoint").check();
  await page.getByRole("button", { name: "Stop the run" }).click();
  await page.getByText("Stopped").first().waitFor();
  const name = await page.getByRole("button", { name: /^Restore / }).first().getAttribute("aria-label");
  await press(name, "Restore the run");
  await page.waitForURL((url) => /#\/runs\/[^/]+$/.test(url.hash) && !url.hash.endsWith(runs.asked));
  const id = decodeURIComponent(page.url().split("/").at(-1));
  await until("the restored run to train", async () => (await fact(page, id, "state")) === "RUNNING");
  expect((await fact(page, id, "restored_from")) === name.slice("Restore ".length), `it goes on from ${await fact(page, id, "restored_from")}`);
  await sound(page, "a restored run");
}

// Presses Tab until the element with this name has the focus, and checks that the focus is visible.
async function tabTo(page, name, key = "Tab") {
  for (let pressed = 0; pressed < 150; pressed += 1) {
    await page.keyboard.press(key);
    const at = await page.evaluate(() => {
      const element = document.activeElement;
      const words = element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ?? element.textContent ?? "";
      return { words: words.trim(), ring: element.matches(":focus-visible") && getComputedStyle(element).outlineStyle !== "none" };
    });
    if (typeof name === "string" ? at.words !== name : !name.test(at.words)) continue;
    expect(at.ring, `the focus on ${name} is not seen`);
    return;
  }
  throw new Error(`${key} does not come to ${name}`);
}

// From the sign-in to a stopped run, without a mouse.
export async function keyboard(browser) {
  const page = await pageIn(browser);
  await page.goto(facts.origin);
  await page.locator("input[name=token]").waitFor();
  expect(await page.evaluate(() => document.activeElement.name === "token"), "the sign-in does not have the focus");
  await page.keyboard.type(tokens.user);
  await page.keyboard.press("Enter");
  await page.locator("header nav").waitFor();
  await tabTo(page, "Runs", "Shift+Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Runs", exact: true }).waitFor();
  await page.getByRole("link", { name: "keyed" }).waitFor();
  await tabTo(page, "keyed");
  await page.keyboard.press("Enter");
  await page.locator(".tabs").waitFor();
  await tabTo(page, "Ranks");
  await page.keyboard.press("Enter");
  await page.locator(".heat canvas").waitFor();
  await tabTo(page, /^Own times of/);
  await page.keyboard.press("End");
  await page.getByText(/^rank 0, /).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "What rank 0 used" }).waitFor();
  await tabTo(page, "Logs", "Shift+Tab");
  await page.keyboard.press("Enter");
  await page.locator(".log-line").first().waitFor();
  await tabTo(page, "Lines of the log");
  await page.keyboard.press("Home");
  await tabTo(page, "Stop", "Shift+Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });  // a closed dialog loses its role before it is removed
  const focus = await page.evaluate(() => document.activeElement.textContent);
  expect(focus === "Stop", `after the dialog the focus is on ${focus}`);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.getByLabel("after its next checkpoint").focus();
  for (let pressed = 0; pressed < 2; pressed += 1) await page.keyboard.press("ArrowDown");
  expect(await page.getByLabel("now: a checkpoint").isChecked(), "the arrow keys do not choose how it stops");
  await tabTo(page, "Stop the run");
  await page.keyboard.press("Enter");
  await page.getByText("Stopped").first().waitFor();
}

export async function expired(browser) {
  const page = await pageIn(browser, { expected: /^/ });  // the test provokes a 401
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

// Admins act on nodes, queues, tokens, limits and the head itself, in Chromium on a real head. Others see none of these
// controls. The audit shows each action in words.
import { expect, facts, legible, open, pageIn, signIn, sound, until } from "./browser.mjs";

const { tokens } = facts;

const controls = [["", ["New queue", "Back up", "Change queue default"]], ["nodes/node-2", ["Drain", "Quarantine", "Remove", "Return to service"]], ["access", ["New token", "Change limits"]]];

const button = (page, name) => page.getByRole("button", { name, exact: true });
const answer = (page, path) => page.evaluate(async (path) => (await fetch(path)).json(), path);

async function confirm(page, name) {
  await page.getByRole("dialog").getByRole("button", { name, exact: true }).click();
  await page.locator("dialog").waitFor({ state: "detached" });
}

export async function operates(browser) {
  for (const who of ["viewer", "user"]) {
    const page = await pageIn(browser);
    await signIn(page, tokens[who]);
    for (const [address, names] of controls) {
      await open(page, address);
      if (address !== "access") await page.getByText("node-2").first().waitFor();
      if (address === "") await page.getByRole("heading", { name: "Head and storage" }).waitFor();
      for (const name of names) expect((await button(page, name).count()) === 0, `${who} sees the button ${name}`);
    }
    await page.context().close();
  }
  const page = await pageIn(browser);
  await signIn(page, tokens.admin);
  await nodes(page);
  await queues(page);
  await access(page);
  await backup(page);
  await audit(page);
  await page.context().close();
}

async function nodes(page) {
  await open(page, "nodes/node-2");
  await button(page, "Drain").click();
  await page.getByLabel("Reason").fill("kernel update");
  await sound(page, "the question before a drain");
  await button(page, "Cancel").click();
  await page.locator("dialog").waitFor({ state: "detached" });
  expect((await answer(page, "/v1/nodes/node-2")).state === "READY", "a question alone has drained the node");
  await button(page, "Drain").click();
  await page.getByLabel("Reason").fill("kernel update");
  await confirm(page, "Drain node-2");
  await until("node-2 to drain", async () => (await answer(page, "/v1/nodes/node-2")).state === "DRAINING");
  await page.getByText(/kernel update/).first().waitFor();
  await legible(page, "a node that drains");
  await button(page, "Return to service").click();
  await confirm(page, "Return node-2 to service");
  await until("node-2 to be ready", async () => (await answer(page, "/v1/nodes/node-2")).state === "READY");
  await button(page, "Quarantine").click();
  await page.getByLabel("Reason").fill("odd ECC errors");
  await sound(page, "the question before a quarantine");
  await confirm(page, "Quarantine node-2");
  await until("node-2 to be in quarantine", async () => (await answer(page, "/v1/nodes/node-2")).state === "QUARANTINED");
  await page.getByText(/odd ECC errors/).first().waitFor();
  await legible(page, "a node in quarantine");
  await button(page, "Return to service").click();
  await confirm(page, "Return node-2 to service");
  await until("node-2 to be ready again", async () => (await answer(page, "/v1/nodes/node-2")).state === "READY");
  await button(page, "Remove").click();
  await page.getByLabel("Type its name to confirm").fill("node-1");
  await page.getByRole("dialog").getByRole("button", { name: "Remove node-2", exact: true }).click();
  expect(await page.getByRole("dialog").isVisible(), "a node is removed under another's name");
  await page.keyboard.press("Escape");
}

async function queues(page) {
  const lab = async () => (await answer(page, "/v1/queues")).items.find((queue) => queue.name === "lab");
  await open(page, "");
  await button(page, "New queue").click();
  await page.getByRole("dialog").getByLabel("Name").fill("lab");
  await page.getByRole("dialog").getByLabel("Quota").fill("GPU=4 CPU=8");
  await confirm(page, "Make the queue");
  await until("queue lab", lab);
  await button(page, "Change queue lab").click();
  await page.getByRole("dialog").getByLabel("Share").fill("3");
  await page.getByRole("dialog").getByLabel("Quota").fill("GPU=2");
  await page.getByText("Changes: share from 1 to 3; CPU from 8 to no limit; GPU from 4 to 2.").waitFor();
  await confirm(page, "Change the queue");
  await until("the rules of lab", async () => JSON.stringify([(await lab()).share, (await lab()).quota]) === '[3,{"GPU":"2"}]');
  await sound(page, "queues of an admin");
  await button(page, "Remove queue lab").click();
  await confirm(page, "Remove the queue");
  await until("lab to be gone", async () => !(await lab()));
}

async function access(page) {
  await open(page, "access");
  await button(page, "New token").click();
  await page.getByRole("dialog").getByLabel("User", { exact: true }).fill("nina");
  await confirm(page, "Make a token of role user");
  const token = await page.locator(".note .copy code").innerText();
  expect(/^rtu1\.|^rt/.test(token), `no token is shown: ${token}`);
  await page.getByRole("row", { name: /nina/ }).first().waitFor();
  await sound(page, "a new token");
  await page.getByLabel("For user").selectOption("nina");
  await page.waitForURL(/user=nina/);
  await button(page, "Change limits").click();
  await page.getByLabel(/^Database in MiB/).fill("64");
  await confirm(page, "Set the limits of nina");
  await until("nina's limit", async () => (await answer(page, "/v1/quotas/nina")).limit.database === 64 * 1024 * 1024);
  await page.getByText("nina has limits of its own.").waitFor();
  await page.getByRole("row", { name: /nina/ }).first().getByRole("button", { name: /^Revoke token/ }).click();
  await confirm(page, "Revoke it");
}

async function backup(page) {
  await open(page, "");
  await button(page, "Back up").click();
  await page.getByLabel("File on the head's machine").fill(facts.backup);
  await page.getByRole("dialog").getByLabel("Passphrase").fill("a long passphrase");
  await confirm(page, "Write the backup");
  await page.getByText(`Written: ${facts.backup}`).waitFor();
}

async function audit(page) {
  await open(page, "access?find=ada");
  for (const text of ["drained node node-2", "quarantined node node-2", "returned node node-2 to service", "changed queue lab: quota CPU without limit, GPU 2; share 3", "removed queue lab", "made a token of role user for nina", "backed up the head"])
    await page.getByText(text, { exact: true }).first().waitFor();
  await page.getByText(/^set the limits of what the head keeps for nina: .*database 64\.0 MiB/).first().waitFor();
  await page.getByText(/^revoked token /).first().waitFor();
}

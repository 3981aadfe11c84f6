// Logs in Chromium on a real head: long ones, and one that is still written.
import { expect, facts, have, pageIn, patience, requestsOf, signIn } from "./browser.mjs";

const { runs, tokens } = facts;

const filter = (page, text) => page.getByPlaceholder("text, or /expression/i").fill(text);

export async function long(browser) {
  const page = await pageIn(browser);
  await signIn(page, tokens.admin, `runs/${runs.long}/logs`);
  await page.getByText("50,000 lines").waitFor();
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
  await filter(page, "line 2500");
  await page.getByText("11 lines of 50,000").waitFor();
  await filter(page, "");
  await page.getByRole("button", { name: "First error" }).click();
  await page.locator(".log-line.marked.error").waitFor();
  await page.getByRole("link", { name: "Attempts" }).click();
  await page.getByRole("heading", { name: "Attempts" }).waitFor();
  await page.evaluate(filterAtOnce, "line 2500");
  await page.getByText("11 lines of 50,000").waitFor();
}

// Opens the logs and types a filter as soon as its field exists, before the browser has painted it.
function filterAtOnce(text) {
  return new Promise((done) => {
    new MutationObserver((_, observer) => {
      const field = document.querySelector("input[placeholder^=text]");
      if (!field) return;
      observer.disconnect();
      field.value = text;
      field.dispatchEvent(new InputEvent("input", { bubbles: true }));
      done();
    }).observe(document.body, { childList: true, subtree: true });
    document.querySelector("a[href$='/logs']").click();
  });
}

// Returns the visible log, for the message of a failing test.
const inSight = (page) => page.evaluate(() => {
  const list = document.querySelector(".virtual[role=log]");
  const text = (where) => document.querySelector(where)?.textContent ?? null;
  return {
    status: text(".panel-head [role=status]"),
    filter: document.querySelector("input[type=search]")?.value ?? null,
    last: [...document.querySelectorAll(".log-text")].at(-1)?.textContent ?? null,
    scrolled: list && [list.scrollTop, list.clientHeight, list.scrollHeight],
    note: text(".note"),
  };
});

async function failWithState(page, what, asked, wrong) {
  throw new Error(`${what}: ${JSON.stringify({ shown: await inSight(page).catch(String), asked })}`, { cause: wrong });
}

const allLines = (page, whole, asked) => page.getByText(whole).waitFor().catch((wrong) => failWithState(page, `not ${whole}`, asked, wrong));

// Waits for lines after `least`, and checks that each numbered line appears once. Returns the last number.
async function ticks(page, least, asked) {
  const numbered = await page.waitForFunction((least) => {
    const last = [...document.querySelectorAll(".log-text")].at(-1)?.textContent ?? "";
    const count = Number(/^([\d,]+) lines of/.exec(document.querySelector(".panel-head [role=status]")?.textContent ?? "")?.[1]?.replaceAll(",", ""));
    const tick = Number(/^tick (\d+)$/.exec(last)?.[1]);
    return tick > least && count > 0 ? { tick, count } : null;  // without a count the filter is not applied yet
  }, least, { ...patience, polling: 200 }).catch((wrong) => failWithState(page, `no line behind number ${least}`, asked, wrong));
  const { tick, count } = await numbered.jsonValue();
  expect(count === tick + 1, `${count} numbered lines are there when the last line is number ${tick}`);
  return tick;
}

// A run that is still writing, with more lines than a stream sends to a reader that is far behind.
export async function flood(browser) {
  const page = await pageIn(browser, { expected: /^/ }); // while the head is away, requests fail
  const asked = requestsOf(page, `/${runs.flood}/logs?`);
  const whole = `${facts.flood_lines.toLocaleString("en-US")} lines of`;
  await signIn(page, tokens.user, `runs/${runs.flood}/logs`);
  await filter(page, "/^flood \\d+ /");
  await allLines(page, whole, asked);
  await filter(page, "left out of the live stream");
  await page.getByText("No line fits the filter.").waitFor();
  await filter(page, "/^tick /");
  let last = await ticks(page, 2, asked);
  await page.getByRole("link", { name: "Attempts" }).click();
  await page.getByRole("heading", { name: "Attempts" }).waitFor();
  await page.getByRole("link", { name: "Logs" }).click();
  await filter(page, "/^tick /");
  last = await ticks(page, last, asked);
  await have("kill the head");
  await page.getByText("Head away, retrying").waitFor();
  await have("start the head");
  last = await ticks(page, last + 3, asked);
  await filter(page, "/^flood \\d+ /");
  await allLines(page, whole, asked);
  const read = asked.filter((address) => address.includes("tail="));
  expect(read.length === 1, `the last lines are asked for ${read.length} times`);
  expect(asked.filter((address) => address.includes("follow=true")).every((address) => address.includes("after=")), "a stream begins anew");
}

export async function flooded(browser) {
  const page = await pageIn(browser);
  const asked = requestsOf(page, `/${runs.flooded}/logs?`);
  await signIn(page, tokens.user, `runs/${runs.flooded}/logs`);
  await page.getByText(`${facts.page_lines.toLocaleString("en-US")} lines, older ones left out`).waitFor();
  expect(asked.length > 0 && asked.every((address) => address.includes(`tail=${facts.page_lines + 1}`)), `it requests ${asked}`);
  expect((await page.locator(".log-text").last().innerText()).startsWith(`flood ${facts.page_lines + 19_999} `), "the last line is not in sight");
}

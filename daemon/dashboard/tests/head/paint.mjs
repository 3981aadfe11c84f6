// Measures the page on a real head for `scripts/bench watch`: its size, its first paint, and the time to draw the
// nodes. Medians of five, each in a browser context without a cache.
import { chromium } from "playwright-core";

const facts = JSON.parse(process.env.PAGE_FACTS);
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const browser = await chromium.launch({ executablePath: facts.chromium, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
const paints = [];
const draws = [];
let size = { raw: 0, compressed: 0 };
try {
  for (let round = 0; round < 5; round += 1) {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    await page.goto(facts.origin);
    await page.locator("input[name=token]").waitFor();
    const seen = await page.evaluate(async () => {
      const paint = await new Promise((done) => new PerformanceObserver((list) => done(list.getEntries()[0].startTime)).observe({ type: "paint", buffered: true }));
      const files = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource").filter((resource) => !resource.name.includes("/v1/"))];
      return { paint, raw: files.reduce((sum, file) => sum + file.decodedBodySize, 0), compressed: files.reduce((sum, file) => sum + file.encodedBodySize, 0) };
    });
    paints.push(seen.paint);
    size = { raw: seen.raw, compressed: seen.compressed };
    await page.locator("input[name=token]").fill(facts.token);
    await page.keyboard.press("Enter");
    await page.locator(".map canvas").waitFor({ timeout: 60_000 });
    await page.waitForFunction(() => performance.getEntriesByName("draw-nodes").length > 0);
    draws.push(await page.evaluate(() => Math.max(...performance.getEntriesByName("draw-nodes").map((draw) => draw.duration))));
    await context.close();
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify({ ...size, paint_ms: median(paints), draw_ms: median(draws) }));

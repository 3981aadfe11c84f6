import assert from "node:assert/strict";
import { test } from "node:test";
import { filterOf, reportsError, shown } from "../../src/text/lines.ts";
import { bytes, bytesOf, duration, number, percent } from "../../src/text/units.ts";
import { address, parse } from "../../src/router.ts";
import { addressOf } from "../../src/api/stream.ts";
import { shellWord } from "../../src/text/shell.ts";
import { eventText } from "../../src/text/event_text.ts";
import { pieces } from "../../src/text/pieces.ts";

test("terminal orders leave a line, a progress bar shows its last state, other control characters are seen", () => {
  assert.equal(shown("\u001b[31mred\u001b[0m \u001b]0;title\u0007x"), "red x");
  assert.equal(shown("10%\r50%\r100%"), "100%");
  assert.equal(shown("a\u0000b\u0007"), "a␀b␇");
  assert.equal(shown("<script>alert(1)</script>"), "<script>alert(1)</script>");
});

test("an error is a traceback or an error's name, not a metric that is called error", () => {
  const telling = ["Traceback (most recent call last):", "torch.cuda.OutOfMemoryError: CUDA out of memory.", "fatal: no such file"];
  for (const line of telling) assert.ok(reportsError(line), line);
  for (const line of ["epoch 1 error_rate 0.3", "no terror here", "errors 0"]) assert.ok(!reportsError(line), line);
});

test("a filter is a text, or an expression; a broken one filters nothing and says so", () => {
  assert.ok(filterOf("LOSS").matches("loss 1"));
  assert.ok(!filterOf("/^loss/").matches("a loss"));
  assert.ok(filterOf("/LOSS/i").matches("a loss"));
  assert.notEqual(filterOf("/(/").problem, "");
});

test("numbers are short and exact enough", () => {
  assert.equal(bytes(1536), "1.5 KiB");
  assert.equal(bytesOf(2 ** 29, 2 ** 30), "0.5 of 1.0 GiB");
  assert.equal(duration(3_725_000), "1 h 2 min");
  assert.equal(duration(59_999), "59 s");
  assert.equal(percent(0.047), "4.7 %");
  assert.equal(number(0.000012345), "1.234e-5");
  assert.equal(number(1234567), "1,234,567");
  assert.equal(number(null), "none");
});

test("an address gives back its parts, whatever their letters", () => {
  const hostile = `a/b?c#d&e <img src=x onerror=alert(1)>`;
  assert.deepEqual(parse(address(["runs", hostile, "logs"], { find: hostile })).path, ["runs", hostile, "logs"]);
  assert.equal(parse(address(["runs"], { find: hostile })).query.get("find"), hostile);
  assert.deepEqual(parse("#/runs/%E0%A4%A").path, ["runs", "%E0%A4%A"]);
  assert.equal(addressOf("/v1/events?run=a", "7"), "/v1/events?run=a&follow=true&after=7");
});

test("a command to copy runs nothing but itself", () => {
  assert.equal(shellWord("run-1@checkpoint_1"), "run-1@checkpoint_1");
  assert.equal(shellWord("a'; rm -rf ~"), `'a'\\''; rm -rf ~'`);
});

test("a long name breaks behind its separators, a short one and a word nowhere", () => {
  assert.deepEqual(pieces("train_digits_2026-11-28_00007 is done"), ["train_", "digits_", "2026-", "11-", "28_", "00007 is done"]);
  assert.deepEqual(pieces("gpu-01"), ["gpu-01"]);
  assert.deepEqual(pieces("incomprehensibilities"), ["incomprehensibilities"]);
  for (const text of ["", " a  b ", "s3://models/runs@x", "<img src=x onerror=1>"]) assert.equal(pieces(text).join(""), text);
});

test("an event does not repeat the name that its link shows", () => {
  assert.equal(eventText({ run_id: "run-1", run_name: "spirals", node: null, text: "spirals committed x" }), "committed x");
  assert.equal(eventText({ run_id: null, run_name: "spirals", node: null, text: "spirals committed x" }), "spirals committed x");
  assert.equal(eventText({ run_id: "run-1", run_name: "spir", node: null, text: "spirals committed x" }), "spirals committed x");
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { LineList, LineView } from "../../src/data/log_list.ts";
import { lineText, matchesByRank, Wrapping } from "../../src/data/wrapping.ts";
import { filterOf } from "../../src/text/lines.ts";

const line = (text: string) => ({ attempt: 1, rank: 0, stream: "out", time: null, line: text });
const fill = (list: LineList, from: number, to: number, textOf = (at: number) => `line ${at}`) => {
  for (let at = from; at < to; at += 1) list.push(line(textOf(at)));
};

test("a list keeps the newest lines, and numbers go on", () => {
  const list = new LineList(100);
  fill(list, 0, 111);
  assert.deepEqual([list.lines.length, list.dropped, list.end, list.lines[0]?.line], [100, 11, 111, "line 11"]);
  list.cutTo(50);
  assert.deepEqual([list.lines.length, list.end], [61 - 22, 50]);
  list.cutTo(0);
  assert.deepEqual([list.lines.length, list.end], [0, 0]);
});

test("a view looks at each line once, however often it is drawn, and its filter and first error follow what is kept", () => {
  const list = new LineList(100);
  let looks = 0;
  const plain = filterOf("7");
  const view = new LineView({ ...plain, matches: (text) => { looks += 1; return plain.matches(text); } });
  fill(list, 0, 80);
  for (let draw = 0; draw < 50; draw += 1) view.update(list);
  assert.equal(looks, 80);
  assert.equal(view.visible.length, 17); // 7, 17, ... 67, 70 to 79
  assert.equal(view.firstError(list), -1);
  list.push(line("ValueError: 7"));
  list.push(line("ValueError: 8"));
  assert.equal(view.update(list).firstError(list), 17);
  fill(list, 82, 112);
  assert.equal(view.update(list).visible[0]?.line, "line 17");  // 0 to 11 were removed
  assert.equal(view.firstError(list), 16);
  assert.ok(looks <= 112 + 1, `${looks} looks`);
});

test("lines that were taken back and came again are shown as they came last", () => {
  const list = new LineList(100);
  const all = new LineView(filterOf(""));
  const some = new LineView(filterOf("error:"));
  fill(list, 0, 10, (at) => (at === 8 ? "error: first" : `line ${at}`));
  assert.equal(all.update(list).firstError(list), 8);
  assert.equal(some.update(list).visible.length, 1);
  list.cutTo(5);
  fill(list, 5, 12, (at) => (at === 6 ? "error: again" : `line ${at}`));
  assert.equal(all.update(list).firstError(list), 6);
  assert.deepEqual(some.update(list).visible.map((line) => line.line), ["error: again"]);
  assert.equal(all.visible.length, 12);
});

test("when the first error was let go, the next one is the first", () => {
  const list = new LineList(10);
  const view = new LineView(filterOf(""));
  fill(list, 0, 11, (at) => (at === 0 || at === 9 ? "fatal: x" : "fine"));
  assert.equal(view.update(list).firstError(list), 0);
  list.push(line("fine"));
  assert.equal(list.dropped, 2);
  assert.equal(view.update(list).firstError(list), 7);
});

test("a wrapped line has as many rows as its text needs, while lines arrive and are dropped", () => {
  const list = new LineList(3);
  fill(list, 0, 2, (at) => "x".repeat(10 * at));
  const wrapping = new Wrapping(8).update(list.lines);
  assert.equal(wrapping.rows, 1 + 2);
  assert.deepEqual([0, 1, 2].map((row) => [wrapping.at(row).line === list.lines[row === 0 ? 0 : 1], wrapping.at(row).text.length, wrapping.at(row).first]), [[true, 0, true], [true, 8, true], [true, 2, false]]);
  list.push(line("last"));
  assert.equal(wrapping.update(list.lines).rows, 4);
  assert.equal(wrapping.at(3).text, "last");
  assert.equal(wrapping.rowOf(2), 3);
  list.push(line("more"));
  list.trim();
  assert.equal(wrapping.update(list.lines).rows, 4);  // the empty line is dropped
  assert.equal(wrapping.at(0).text, "xxxxxxxx");
});

test("matches are counted by rank and attempt, the most first", () => {
  const lines = [[1, 0], [1, 3], [2, 3], [1, 3]].map(([attempt, rank]) => ({ ...line("a"), attempt: attempt!, rank: rank! }));
  assert.deepEqual(matchesByRank(lines, 2), [{ attempt: 1, rank: 3, count: 2 }, { attempt: 1, rank: 0, count: 1 }]);
  assert.equal(lineText({ ...line("\u001b[31mred"), time: "2026-01-31T00:00:00.000Z", attempt: 2 }), "2026-01-31T00:00:00.000Z attempt 2 rank 0 out: red\n");
});

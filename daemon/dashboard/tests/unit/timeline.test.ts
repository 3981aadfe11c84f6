import assert from "node:assert/strict";
import { test } from "node:test";
import type { TimelineAttempt } from "../../src/api/types.ts";
import { moved, ticksOf, timelineOf } from "../../src/data/timeline.ts";
import { axisTime } from "../../src/text/time.ts";

const minute = 60_000;
const at = (minutes: number) => new Date(minutes * minute).toISOString();
const held = (name: string, from: number, to: number | null, nodes: Record<string, number[]>, more: Partial<TimelineAttempt> = {}): TimelineAttempt => ({
  run_id: name, name, user: "ada", state: "RUNNING", attempt: 1, attempt_state: "RUNNING", placed: at(from), ended: to === null ? null : at(to),
  nodes: Object.entries(nodes).map(([node, gpus]) => ({ node, gpus })), ...more,
});

test("a bar lies in the row of its GPU, is cut at the span, and is open until now", () => {
  const timeline = timelineOf(new Map([["n10", 0], ["n2", 2]]), [held("a", 0, 30, { n2: [0, 1] }), held("b", 40, null, { n2: [1], n10: [] })], { from: 10 * minute, to: 60 * minute }, 50 * minute);
  assert.deepEqual(timeline.rows.map((row) => [row.node, row.gpu, row.first]), [["n2", 0, true], ["n2", 1, false], ["n10", null, true]]);
  assert.deepEqual(timeline.bars.map((bar) => [bar.of.name, bar.row, bar.from / minute, bar.to / minute]), [["a", 0, 10, 30], ["a", 1, 10, 30], ["b", 1, 40, 50], ["b", 2, 40, 50]]);
});

test("runs that share a GPU lie in subrows, and nodes that left have rows", () => {
  const shared = [held("a", 0, 30, { gone: [3] }), held("b", 10, 20, { gone: [3] }), held("c", 20, 40, { gone: [3] })];
  const timeline = timelineOf(new Map(), shared, { from: 0, to: 60 * minute }, 60 * minute);
  assert.deepEqual(timeline.rows.map((row) => `${row.node} ${row.gpu}`), ["gone 3"]);
  assert.deepEqual(timeline.subrows, [2]);
  assert.deepEqual(timeline.bars.map((bar) => bar.subrow), [0, 1, 1]);
});

test("a zoom keeps its middle and does not pass now", () => {
  const hours = (from: number, to: number) => ({ from: from * 60 * minute, to: to * 60 * minute });
  const now = 100 * 60 * minute;
  assert.deepEqual(moved(hours(40, 60), 0.5, 0, now), hours(45, 55));
  assert.deepEqual(moved(hours(40, 60), 1, -0.5, now), hours(30, 50));
  assert.deepEqual(moved(hours(90, 100), 2, 0, now), hours(80, 100));
  assert.equal(moved({ from: 0, to: minute }, 0.5, 0, now).to - moved({ from: 0, to: minute }, 0.5, 0, now).from, minute);
});

test("an axis has round times, with the day where it is long", () => {
  const day = new Date(2026, 0, 31).getTime();
  const ticks = ticksOf({ from: day + minute, to: day + 24 * 60 * minute }, 8);
  assert.deepEqual(ticks.map((tick) => new Date(tick).getHours()), [3, 6, 9, 12, 15, 18, 21, 0]);
  assert.equal(axisTime(day, 24 * 60 * minute), "01-31 00:00");
  assert.equal(axisTime(day, 10 * minute), "00:00:00");
  assert.equal(ticksOf({ from: day, to: day + 400 * 24 * 60 * minute }, 2).length > 0, true);
});

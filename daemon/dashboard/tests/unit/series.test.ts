import assert from "node:assert/strict";
import { test } from "node:test";
import { checkpointsOf, currentPoints, joined, keysOf, pointOf, pointsOf, seriesOf, smoothed, spansOf, thinned } from "../../src/data/series.ts";
import { Continuation } from "../../src/data/continued.ts";
import type { Attempt, Report, RunHistory } from "../../src/api/types.ts";

const report = (attempt: number, index: number, loss: unknown, more: Partial<Report> = {}): Report => ({
  attempt, index, time: new Date(index * 1000).toISOString(), position: index, metrics: { loss }, ...more,
});

test("what is no number is no point, and no key of a report touches the prototype", () => {
  const points = [report(1, 0, "text"), report(1, 1, 2), report(1, 2, true)].map((raw_report) => pointOf(raw_report));
  assert.deepEqual(seriesOf(points, "loss", "step"), { x: [1, 2], y: [2, 1] });
  const odd = pointOf({ ...report(1, 3, 1), metrics: JSON.parse('{"__proto__": 5, "constructor": 6}') as Record<string, unknown> });
  assert.deepEqual(keysOf([odd]), ["__proto__", "constructor"]);
  assert.equal(({} as Record<string, unknown>)["5"], undefined);
});

test("steps that a later attempt trains again are those of the later attempt; by time all are there", () => {
  const points = [report(1, 0, 9), report(1, 1, 8), report(1, 2, 7), report(2, 1, 6), report(2, 2, 5)].map((raw_report) => pointOf(raw_report));
  assert.deepEqual(currentPoints(points).map((point) => [point.attempt, point.index]), [[1, 0], [2, 1], [2, 2]]);
  assert.deepEqual(seriesOf(points, "loss", "step").y, [9, 6, 5]);
  assert.equal(seriesOf(points, "loss", "time").y.length, 5);
});

test("attempts are shaded where they are the present ones", () => {
  const points = [report(1, 0, 1), report(1, 4, 1), report(2, 3, 1), report(2, 8, 1)].map((raw_report) => pointOf(raw_report));
  assert.deepEqual(spansOf(points, [], "step", 0), [{ attempt: 1, from: 0, to: 0 }, { attempt: 2, from: 0, to: 8 }]);
  const attempts = [{ number: 1, placed: null, started: "1970-01-01T00:00:10.000Z", ended: null }] as Attempt[];
  assert.deepEqual(spansOf(points, attempts, "time", 30_000), [{ attempt: 1, from: 10, to: 30 }]);
});

test("thinning keeps the greatest and the least", () => {
  const x = Array.from({ length: 10_000 }, (_, at) => at);
  const y = x.map((at) => (at === 6_543 ? 99 : at === 1_234 ? -99 : at % 7));
  const thin = thinned({ x, y }, 200);
  assert.ok(thin.x.length <= 220);
  assert.ok(thin.y.includes(99) && thin.y.includes(-99));
  assert.deepEqual([...thin.x].sort((a, b) => a - b), thin.x);
});

test("a smoothed constant is that constant from its first value on", () => {
  for (const value of smoothed({ x: [0, 1, 2], y: [4, 4, 4] }, 0.9).y) assert.ok(Math.abs(value! - 4) < 1e-9);
});

test("series over different steps share one axis, with nothing where one has no value", () => {
  assert.deepEqual(joined([{ x: [0, 2], y: [1, 3] }, { x: [1, 2], y: [5, 6] }]), { x: [0, 1, 2], y: [[1, undefined, 3], [undefined, 5, 6]] });
});

test("a gap of one series stays one between the values of others", () => {
  const both = joined([{ x: [0, 2, 4], y: [1, null, 2] }, { x: [1, 3, 5], y: [5, 6, 7] }]);
  assert.deepEqual(both.y, [[1, null, null, null, 2, undefined], [undefined, 5, undefined, 6, undefined, 7]]);
});

test("checkpoints stand where their report does", () => {
  const points = [report(1, 0, 1), report(1, 1, 1, { checkpoint: "c1" })].map((raw_report) => pointOf(raw_report));
  assert.deepEqual(checkpointsOf(points, "step"), [{ x: 1, name: "c1" }]);
});

test("a long run's levels are two points for each stretch, and its keys share them", () => {
  const at = (position: number[], step: number[], attempt: number[], min: number[], max: number[]): RunHistory => ({
    run_id: "r", last: 64, reports_per_point: 16, points: { position, step, attempt, time_ms: step.map((number) => number * 1000), min, max },
  });
  const points = pointsOf(new Map([
    ["loss", at([0, 16, 32], [1, 16, 20], [1, 1, 2], [5, 3, 4], [9, 7, 8])],
    ["late", at([16], [16], [1], [1], [2])],
  ]));
  assert.deepEqual(points.map((point) => point.index), [1, 9, 16, 24, 20, 28]);
  assert.deepEqual(points.map((point) => point.time), [1000, 8500, 16000, 18000, 20000, 20000]);
  assert.deepEqual(points.map((point) => ({ ...point.values })), [{ loss: 5 }, { loss: 9 }, { loss: 3, late: 1 }, { loss: 7, late: 2 }, { loss: 4 }, { loss: 8 }]);
  // On a step axis the second attempt replaces the steps that it repeats.
  assert.deepEqual(seriesOf(points, "loss", "step"), { x: [1, 9, 16, 20, 28], y: [5, 9, 3, 4, 8] });
  assert.deepEqual(pointsOf(new Map()), []);
});

test("an attempt goes on behind the report of the checkpoint from which it began", () => {
  const attempts = [{ number: 1, from: null }, { number: 2, from: "c2" }, { number: 3, from: null }, { number: 4, from: "gone" }] as Attempt[];
  const continuation = new Continuation();
  const points = [report(1, 1, 9), report(1, 2, 8, { checkpoint: "c2" }), report(1, 3, 7)].map((raw_report) => continuation.shifted(pointOf(raw_report)));
  continuation.learn(2, attempts, points);
  points.push(continuation.shifted(pointOf(report(2, 1, 6))));
  assert.equal(points.at(-1)?.index, 3);
  assert.deepEqual(seriesOf(points, "loss", "step"), { x: [1, 2, 3], y: [9, 8, 6] });
  continuation.learn(3, attempts, points);
  assert.equal(continuation.shifted(pointOf(report(3, 1, 5))).index, 1);
  continuation.learn(4, attempts, points);
  assert.equal(continuation.shifted(pointOf(report(4, 1, 5))).index, 4);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { comparable, differing } from "../../src/data/compare.ts";
import { differences } from "../../src/data/differences.ts";
import { goodputOf } from "../../src/data/goodput.ts";
import { gridFor, moved, nodeAt, placeOf } from "../../src/data/grid.ts";
import { intervalsOf, slowestAt, slownessOf, straggler } from "../../src/data/intervals.ts";
import { allocatedOf, share, stateOf } from "../../src/data/nodes.ts";
import { durationOf, limitOf, progressOf } from "../../src/data/progress.ts";
import type { NodeRecord, RanksHistory, Run } from "../../src/api/types.ts";
import { pointOf } from "../../src/data/series.ts";

const run = (more: Partial<Run>): Run => ({ state: "RUNNING", started: "1970-01-01T00:00:00.000Z", last_report: null, job: {}, ...more }) as Run;

test("progress is the stop metric that is nearest to its end, and time left follows the present attempt's pace", () => {
  const points = [0, 10, 20].map((step, at) => pointOf({ attempt: 2, index: at, time: new Date(at * 1000).toISOString(), position: at, metrics: { step } }));
  const progress = progressOf(run({ job: { stop: { step: 100, epoch: 50 } }, last_report: { attempt: 2, index: 2, time: null, position: 2, metrics: { step: 20, epoch: 1 } } }), points);
  assert.deepEqual(progress, { ratio: 0.2, key: "step", value: 20, target: 100, left_ms: 8_000 });
  assert.equal(progressOf(run({ job: {} }), points), null);
});

test("a wall time is read as the spec writes it", () => {
  assert.equal(durationOf("1h30m"), 5_400_000);
  assert.equal(durationOf("90s"), 90_000);
  assert.equal(durationOf("soon"), null);
  assert.deepEqual(limitOf(run({ job: { limits: { wall_time: "10s" } } }), 4_000), { left_ms: 6_000, whole_ms: 10_000 });
});

test("goodput is in the order of the causes, with shares of the whole; absent where the answer has none", () => {
  assert.equal(goodputOf({}), null);
  const goodput = goodputOf({ goodput: { wall_ms: 100_000, ratio: 0.75, causes_ms: { queue: 25_000, productive: 75_000, data: 0 } } });
  assert.deepEqual(goodput?.parts.map((part) => [part.cause, part.ratio]), [["productive", 0.75], ["queue", 0.25]]);
  assert.equal(goodput?.productive, 0.75);
  assert.equal(goodputOf({ goodput: { wall_ms: 0, ratio: 0, causes_ms: {} } }), null);
});

test("the rank that does not wait stands out, though all ranks report at the same time", () => {
  const times = Array.from({ length: 10 }, (_, at) => at * 16_000);
  const history = (values: readonly number[]): RanksHistory => ({ run_id: "r", key: "k", last: 160, ranks: values.map((value, rank) => ({ rank, seconds_per_point: 16, points: { time_ms: times, min: times.map(() => value), max: times.map(() => value) } })) });
  const none: RanksHistory = { run_id: "r", key: "k", last: 0, ranks: [] };
  const seen = intervalsOf(history([0.25, 0.25, 0.24, 0.25]), history([0.4, 0.4, 0.96, 0.4]));
  assert.deepEqual(seen.times, times);
  assert.deepEqual([...seen.columns[0]!].map(Math.round), [100, 100, 240, 100]);
  assert.equal(straggler(seen)?.rank, 2);
  assert.equal(slowestAt(seen, 0)?.rank, 2);
  assert.equal(straggler(intervalsOf(history([0.25, 0.25, 0.24, 0.25]), history([0.9, 0.91, 0.92, 0.9]))), null);
  const unknown = intervalsOf(history([0.25, 0.25, 0.5, 0.25]), none);
  assert.deepEqual([...unknown.columns[0]!].map(Math.round), [250, 250, 500, 250]);
  assert.deepEqual([...slownessOf(Float32Array.of(100, 0, 200, 100))], [1, 0, 2, 1]);
  assert.equal(slowestAt(intervalsOf(none, none), 0), null);
});

test("only fields that differ are told, whatever their depth", () => {
  assert.deepEqual(differences([{ a: { b: 1, c: [1] }, d: "x" }, { a: { b: 2, c: [1] } }]), [
    { field: "a.b", values: ["1", "2"] },
    { field: "d", values: ["x", null] },
  ]);
});

test("the map holds all nodes, and finds the one under the pointer", () => {
  for (const count of [1, 37, 2_000]) {
    const grid = gridFor(count, 1_000, 420);
    assert.ok(grid.columns * grid.rows >= count);
    for (const at of [0, count - 1]) {
      const { x, y } = placeOf(grid, at);
      assert.ok(x + grid.tile <= 1_000);
      assert.equal(nodeAt(grid, count, x + 1, y + 1), at);
    }
    assert.equal(moved(grid, count, 0, "ArrowLeft"), 0);
    assert.equal(moved(grid, count, 0, "End"), count - 1);
  }
});

test("a node without a connection is away, unless it is lost", () => {
  const node = { state: "READY", connected: false } as NodeRecord;
  assert.equal(stateOf(node), "AWAY");
  assert.equal(stateOf({ ...node, state: "LOST" }), "LOST");
});

test("a resource of which nothing is free is wholly in use", () => {
  const node = { resources: { CPU: "4" }, free: {} } as unknown as NodeRecord;
  assert.equal(allocatedOf(node, "CPU"), 4);
  assert.equal(share(node, "CPU"), 1);
  assert.equal(allocatedOf(node, "GPU"), 0);
});

test("runs are compared by their config, by last values and by what else differs in their specs", () => {
  const of = (lr: number, loss: number | undefined, workers: number) => run({
    job: { name: `run-${lr}`, env: { RTRAIN_SHOWN_CONFIG: JSON.stringify({ lr, width: 64 }), RTRAIN_DRIVER_ID: String(lr), A: "1" }, scaling: { workers } },
    last_report: loss === undefined ? null : { attempt: 1, index: 1, time: null, position: 1, metrics: { loss, note: "x" } },
  });
  assert.deepEqual(differing([of(0.1, 2, 4), of(0.2, undefined, 8)]), [
    { field: "config.lr", kind: "config", values: ["0.1", "0.2"] },
    { field: "loss", kind: "metric", values: ["2", null] },
    { field: "scaling.workers", kind: "spec", values: ["4", "8"] },
  ]);
  assert.deepEqual(comparable({ name: "a", env: { RTRAIN_SHOWN_CONFIG: "(hidden)" } }), {});
  assert.deepEqual(differing([of(0.1, undefined, 4)]).map((difference) => difference.field), ["config.lr", "config.width"]);
});

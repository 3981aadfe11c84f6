import assert from "node:assert/strict";
import { test } from "node:test";
import type { Run } from "../../src/api/types.ts";
import { countsOf, gpusOf, ownLabels, type Row, rowsOf } from "../../src/data/run_rows.ts";

const run = (run_id: string, labels: Record<string, string> = {}, more: Partial<Run> = {}): Run => ({ run_id, name: `name-${run_id}`, labels, array: null, state: "RUNNING", needs: "1 x {CPU: 1}", ...more }) as Run;
const tree = (rows: readonly Row[]): unknown[] => rows.map((row) => (row.below.length > 0 ? [`${row.kind} ${row.name}`, ...tree(row.below)] : row.name));

const runs = [
  run("9", { "rtrain.parent": "7" }), run("8", { "rtrain.parent": "7", "rtrain.sweep": "s" }), run("6", { "rtrain.parent": "7", "rtrain.sweep": "s" }), run("7"),
  run("5", {}, { array: "grid" }), run("4", {}, { array: "grid" }), run("3", {}, { array: "alone" }), run("2", { "rtrain.parent": "1" }),
];

test("runs lie below their driver, and within their array or sweep", () => {
  assert.deepEqual(tree(rowsOf(runs, "")), [["driver name-7", "name-9", ["sweep s", "name-8", "name-6"]], ["array grid", "name-5", "name-4"], "name-3", ["driver 1", "name-2"]]);
  assert.deepEqual(tree(rowsOf(runs, "array")), ["name-9", "name-8", "name-6", "name-7", ["array grid", "name-5", "name-4"], "name-3", "name-2"]);
  assert.deepEqual(tree(rowsOf(runs, "sweep")), ["name-9", ["sweep s", "name-8", "name-6"], "name-7", "name-5", "name-4", "name-3", "name-2"]);
  assert.equal(rowsOf(runs, "none").length, runs.length);
  assert.equal(rowsOf(runs, "")[0]!.runs.length, 3);
  assert.equal(rowsOf([run("1", { "rtrain.parent": "1" })], "")[0]!.name, "name-1");
});

test("GPUs count all workers, and rtrain's labels are left out", () => {
  assert.equal(gpusOf(run("1", {}, { needs: "4 x {CPU: 1, GPU: 0.5}" })), 2);
  assert.equal(gpusOf(run("1", {}, { needs: "4 x {CPU: 1}" })), 0);
  assert.equal(ownLabels(run("1", { "rtrain.parent": "7", team: "vision" })), "team=vision");
  assert.deepEqual(countsOf([...runs, run("0", {}, { state: "QUEUED" })]), [["RUNNING", 8], ["QUEUED", 1]]);
});

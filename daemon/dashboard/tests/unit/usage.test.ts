import assert from "node:assert/strict";
import { test } from "node:test";
import { usageCharts, usageSeries } from "../../src/data/usage.ts";

test("a node's GPUs share a chart, in their order; a key that is not known has one of its own", () => {
  const charts = usageCharts(["disk_written_bytes_per_second", "gpu10_utilization_ratio", "gpu2_utilization_ratio", "cpu_cores", "disk_read_bytes_per_second", "new_thing"]);
  assert.deepEqual(charts.map((chart) => [chart.title, chart.lines.map((line) => line.name)]), [
    ["CPUs in use", ["CPUs"]], ["GPU utilisation", ["GPU 2", "GPU 10"]], ["Disk", ["read", "written"]], ["new_thing", ["new_thing"]],
  ]);
  assert.equal(charts[1]?.format(0.5), "50 %");
  assert.equal(charts[2]?.format(2048), "2.0 KiB/s");
});

test("a stretch has its least and greatest value, and a line is broken where nothing was kept", () => {
  const points = { time_ms: [0, 16_000, 160_000], min: [1, 2, 3], max: [1, 4, 3] };
  assert.deepEqual(usageSeries({ last: 160, seconds_per_point: 16, points }), { x: [0, 16, 24, 92, 160], y: [1, 2, 4, null, 3] });
  assert.deepEqual(usageSeries({ last: 0 }), { x: [], y: [] });
});

// Converts the use of a node or a rank over time to series for small charts. Pure.
import type { UsageHistory } from "../api/types.ts";
import { bytes, duration, number, percent } from "../text/units.ts";
import type { Series } from "./series.ts";

export interface UsageChart {
  title: string;
  format: (value: number) => string;
  top?: number;  // end of the scale; absent: the greatest value
  lines: { key: string; name: string }[];
}

const partOfCluster = (part: string) => (part === "" ? "all" : part.slice(1));
const rate = (value: number) => `${bytes(value)}/s`;

// Each chart has the keys that match its pattern. The pattern's group, or the second member, names the line.
const charts: { title: string; format: UsageChart["format"]; top?: number; of: RegExp; name: (part: string) => string }[] = [
  { title: "CPUs in use", format: number, of: /^(cpu_cores)$/, name: () => "CPUs" },
  { title: "Memory", format: bytes, of: /^(memory_bytes)$/, name: () => "memory" },
  { title: "GPU utilisation", format: percent, top: 1, of: /^gpu(\d*)_utilization_ratio$/, name: (gpu) => (gpu === "" ? "its GPUs" : `GPU ${gpu}`) },
  { title: "GPU memory", format: bytes, of: /^gpu(\d*)_memory_bytes$/, name: (gpu) => (gpu === "" ? "its GPUs" : `GPU ${gpu}`) },
  { title: "Time that is its own, without waits for other ranks", format: percent, top: 1, of: /^(own_time_ratio)$/, name: () => "own time" },
  { title: "Time between two reports", format: (seconds) => duration(seconds * 1000), of: /^(report_interval_seconds)$/, name: () => "time" },
  { title: "GPUs of the cluster", format: number, of: /^gpus(|_allocated|_used)$/, name: partOfCluster },
  { title: "CPUs of the cluster", format: number, of: /^cpus(|_allocated|_used)$/, name: partOfCluster },
  { title: "Runs", format: number, of: /^runs_(waiting|running)$/, name: (state) => state },
  { title: "Free on disks", format: bytes, of: /^(data|storage)_free_bytes$/, name: (place) => (place === "data" ? "data directory" : "storage root") },
  { title: "Longest pause of the head", format: (seconds) => duration(seconds * 1000), of: /^(head_longest_task_seconds)$/, name: () => "pause" },
  { title: "Memory of the head", format: bytes, of: /^(head_memory_bytes)$/, name: () => "memory" },
  { title: "Network", format: rate, of: /^network_(received|sent)_bytes_per_second$/, name: (way) => way },
  { title: "Disk", format: rate, of: /^disk_(read|written)_bytes_per_second$/, name: (way) => way },
];

// Returns the charts that have keys. A key without a chart gets one with its own name.
export function usageCharts(keys: readonly string[]): UsageChart[] {
  const sorted = [...keys].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const known = charts.map(({ title, format, top, of, name }) => ({
    title, format, ...(top === undefined ? {} : { top }),
    lines: sorted.flatMap((key) => {
      const match = of.exec(key);
      return match ? [{ key, name: name(match[1] ?? "") }] : [];
    }),
  }));
  const others = sorted.filter((key) => !charts.some((chart) => chart.of.test(key)));
  return [...known.filter((chart) => chart.lines.length > 0), ...others.map((key) => ({ title: key, format: number, lines: [{ key, name: key }] }))];
}

const gap_least_s = 30;  // the time between heartbeats, and between rates, is shorter

// Returns the least and the greatest value of each stretch. The line is interrupted where no sample was kept.
export function usageSeries(history: UsageHistory): Series {
  const out: Series = { x: [], y: [] };
  const points = history.points;
  if (!points) return out;
  const width = history.seconds_per_point ?? 1;
  const gap = Math.max(gap_least_s, 3 * width);
  points.time_ms.forEach((time_ms, at) => {
    const time = time_ms / 1000;
    const last = out.x.at(-1);
    if (last !== undefined && time - last > gap) {
      out.x.push((last + time) / 2);
      out.y.push(null);
    }
    const least = points.min[at]!;
    const greatest = points.max[at]!;
    out.x.push(time);
    out.y.push(least);
    if (greatest === least) return;
    out.x.push(time + width / 2);
    out.y.push(greatest);
  });
  return out;
}

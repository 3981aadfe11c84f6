// Arranges runs as a tree: a driver with the runs that its workers have submitted, the runs of an array, the trials of a
// sweep. Pure.
import type { Run } from "../api/types.ts";

export interface Row {
  key: string;
  run: Run | null;  // null: a group without a run of its own
  name: string;
  kind: "run" | "driver" | "array" | "sweep";
  below: Row[];
  runs: Run[];  // all runs below
  depth: number;
}

export const groupings = ["none", "driver", "array", "sweep"] as const;
export type Grouping = "" | (typeof groupings)[number];  // "": driver, array and sweep together

export const parentOf = (run: Run): string => run.labels["rtrain.parent"] ?? "";
export const remoteKind = (run: Pick<Run, "labels">): string => run.labels["rtrain.remote"] ?? "";
export const ownLabels = (run: Run): string => Object.entries(run.labels).filter(([key]) => !key.startsWith("rtrain.")).map(([key, value]) => `${key}=${value}`).join(", ");

// Returns the number of GPUs that all workers of a run ask for: `needs` is "4 x {CPU: 1, GPU: 0.5}".
export function gpusOf(run: Pick<Run, "needs">): number {
  const form = /^(\d+) x \{.*?\bGPU: ([\d.]+)/.exec(run.needs);
  return form ? Number(form[1]) * Number(form[2]) : 0;
}

const group_least = 2;

export function rowsOf(runs: readonly Run[], grouping: Grouping): Row[] {
  const by = (kind: Grouping) => grouping === "" || grouping === kind;
  const known = new Set(runs.map((run) => run.run_id));
  const children = new Map<string, Run[]>();
  const tops: Run[] = [];
  for (const run of runs) {
    const parent = by("driver") ? parentOf(run) : "";
    if (parent === "" || parent === run.run_id) tops.push(run);
    else children.set(parent, [...(children.get(parent) ?? []), run]);
  }
  const plain = (run: Run, depth: number): Row => {
    const below = arranged(children.get(run.run_id) ?? [], depth + 1);
    return { key: run.run_id, run, name: run.name, kind: below.length > 0 ? "driver" : "run", below, runs: below.flatMap(allOf), depth };
  };
  const groupOf = (run: Run): ["array" | "sweep", string] | null => {
    if (by("array") && run.array) return ["array", run.array];
    const sweep = by("sweep") ? run.labels["rtrain.sweep"] : undefined;
    return sweep ? ["sweep", sweep] : null;
  };
  function arranged(list: readonly Run[], depth: number): Row[] {
    const groups = new Map<string, Run[]>();
    for (const run of list) {
      const group = groupOf(run)?.join(" ");
      if (group) groups.set(group, [...(groups.get(group) ?? []), run]);
    }
    return list.flatMap((run) => {
      const group = groupOf(run);
      const members = group ? groups.get(group.join(" "))! : [];
      if (!group || members.length < group_least) return [plain(run, depth)];
      if (members[0] !== run) return [];
      const below = members.map((run) => plain(run, depth + 1));
      return [{ key: `${group[0]} ${group[1]} ${depth}`, run: null, name: group[1], kind: group[0], below, runs: below.flatMap(allOf), depth }];
    });
  }
  // Runs whose driver is not in the list.
  const orphans = [...children].filter(([parent]) => !known.has(parent)).flatMap(([parent, list]): Row[] => {
    const below = arranged(list, 1);
    return [{ key: `driver ${parent}`, run: null, name: parent, kind: "driver", below, runs: below.flatMap(allOf), depth: 0 }];
  });
  return [...arranged(tops, 0), ...orphans];
}

const allOf = (row: Row): Run[] => (row.run ? [row.run, ...row.runs] : row.runs);
export const runsOf = allOf;

// Returns the number of runs in each state, the most frequent first.
export function countsOf(runs: readonly Run[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const run of runs) counts.set(run.state, (counts.get(run.state) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a);
}

// Finds the hyperparameters, fields of the specs and outcomes that differ among runs. Pure.
import type { Run } from "../api/types.ts";
import { differences, flat } from "./differences.ts";

export interface Differing {
  field: string;  // "config.lr", "scaling.workers"
  kind: "config" | "spec" | "metric";
  values: (string | null)[];  // one per run; null: the run has no such field
}

const shown_config = "RTRAIN_SHOWN_CONFIG";

// The spec without what no person has written, with the config that the loop was given.
export function comparable(job: Record<string, unknown> | null | undefined): Record<string, unknown> {
  const { name: _, env, ...others } = job ?? {};
  const variables = env && typeof env === "object" ? (env as Record<string, unknown>) : {};
  const own = Object.fromEntries(Object.entries(variables).filter(([key]) => !key.startsWith("RTRAIN_")));
  return { ...others, ...(Object.keys(own).length > 0 ? { env: own } : {}), ...configOf(variables[shown_config]) };
}

function configOf(text: unknown): { config?: unknown } {
  if (typeof text !== "string") return {};
  try {
    return { config: JSON.parse(text) };
  } catch {
    return {};  // the value is hidden from this user
  }
}

// With one run: all of its hyperparameters, because nothing can differ.
export function differing(runs: readonly Pick<Run, "job" | "last_report">[]): Differing[] {
  const specs = runs.map((run) => comparable(run.job));
  const fields = runs.length === 1 ? [...flat(specs[0])].filter(([field]) => field.startsWith("config.")).map(([field, value]) => ({ field, values: [value] })) : differences(specs);
  const differing_fields = fields.map((difference): Differing => ({ ...difference, kind: difference.field.startsWith("config.") ? "config" : "spec" }));
  const keys = [...new Set(runs.flatMap((run) => Object.entries(run.last_report?.metrics ?? {}).flatMap(([key, value]) => (typeof value === "number" ? [key] : []))))].sort();
  const metrics = keys.map((key): Differing => ({ field: key, kind: "metric", values: runs.map((run) => {
    const value = run.last_report?.metrics?.[key];
    return typeof value === "number" ? String(value) : null;
  }) }));
  return [...differing_fields.filter((field) => field.kind === "config"), ...metrics, ...differing_fields.filter((field) => field.kind === "spec")];
}

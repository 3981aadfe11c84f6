// Computes the differences between the specs of several runs. Pure.

export interface Difference {
  field: string; // "scaling.workers"
  values: (string | null)[];  // one per run; null: the run has no such field
}

export function flat(value: unknown, path = "", into: Map<string, string> = new Map()): Map<string, string> {
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    const entries = Object.entries(value);
    if (entries.length === 0 && path !== "") into.set(path, "{}");
    for (const [key, inner] of entries) flat(inner, path === "" ? key : `${path}.${key}`, into);
    return into;
  }
  into.set(path, typeof value === "string" ? value : JSON.stringify(value));
  return into;
}

export function differences(specs: readonly unknown[]): Difference[] {
  const all = specs.map((spec) => flat(spec ?? {}));
  const fields = [...new Set(all.flatMap((flat_spec) => [...flat_spec.keys()]))].sort();
  return fields
    .map((field) => ({ field, values: all.map((flat_spec) => flat_spec.get(field) ?? null) }))
    .filter((field) => new Set(field.values).size > 1);
}

// A file that imports another one, if only its types, is not imported by that one again.
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { test } from "node:test";

const source = new URL("../../src/", import.meta.url).pathname;

function importedBy(file: string): string[] {
  const text = readFileSync(join(source, file), "utf8");
  return [...text.matchAll(/\bfrom "(\.[^"]+)"/g)].map((match) => normalize(join(dirname(file), match[1]!)));
}

// Returns the files of one circle, the first again at the end; undefined without a circle.
function circle(imports: Map<string, string[]>): string[] | undefined {
  const done = new Set<string>();
  const visit = (file: string, above: string[]): string[] | undefined => {
    if (above.includes(file)) return [...above.slice(above.indexOf(file)), file];
    if (done.has(file)) return undefined;
    for (const imported of imports.get(file) ?? []) {
      const below = visit(imported, [...above, file]);
      if (below) return below;
    }
    done.add(file);
    return undefined;
  };
  for (const file of imports.keys()) {
    const files = visit(file, []);
    if (files) return files;
  }
  return undefined;
}

test("a circle through types is found", () => {
  const imports = new Map([["a.ts", ["b.ts"]], ["b.ts", ["c.ts"]], ["c.ts", ["b.ts"]]]);
  assert.deepEqual(circle(imports), ["b.ts", "c.ts", "b.ts"]);
});

test("no files of the page import each other", () => {
  const files = globSync("**/*.{ts,tsx}", { cwd: source });
  assert.ok(files.length > 20);
  assert.equal(circle(new Map(files.map((file) => [file, importedBy(file)]))), undefined);
});

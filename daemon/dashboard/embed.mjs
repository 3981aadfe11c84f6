// Writes a C++ source that contains the page's files, compressed: embed.mjs DIST SOURCE. Fails if they exceed the
// permitted size.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { gzipSync } from "node:zlib";

const raw_most = 250_000;
const compressed_most = 90_000;
const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml" };
const columns = 30;

const [dist, source] = process.argv.slice(2);
const names = readdirSync(dist, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(dist.length + 1))
  .sort();

const files = names.map((name) => {
  const type = types[extname(name)];
  if (type === undefined) throw new Error(`${name}: no content type is known for it; name its type in embed.mjs`);
  const bytes = readFileSync(join(dist, name));
  const packed = gzipSync(bytes, { level: 9 });
  return { path: name === "index.html" ? "/" : `/${name}`, type, bytes, packed, etag: createHash("sha256").update(bytes).digest("hex").slice(0, 32) };
});

const sum = (of) => files.reduce((total, file) => total + file[of].length, 0);
if (sum("bytes") > raw_most || sum("packed") > compressed_most)
  throw new Error(`the page has ${sum("bytes")} bytes, ${sum("packed")} compressed; it may have ${raw_most} and ${compressed_most}`);

// Returns the bytes as numbers of a char array: a string literal of this length is not portable.
function numbers(packed) {
  const rows = [];
  for (let at = 0; at < packed.length; at += columns) rows.push([...packed.subarray(at, at + columns)].join(","));
  return rows.join(",\n");
}

const arrays = files.map((file, at) => `constexpr unsigned char bytes_${at}[] = {\n${numbers(file.packed)}};`).join("\n");
const rows = files.map((file, at) => `    {"${file.path}", "${file.type}", "\\"${file.etag}\\"", text(bytes_${at})},`).join("\n");
writeFileSync(
  source,
  `// Made by daemon/dashboard/embed.mjs of ${sum("bytes")} bytes, ${sum("packed")} compressed.
#include "daemon/head/page/page_files.hpp"

namespace rtrain::head {
namespace {

${arrays}

template <std::size_t count>
std::string_view text(const unsigned char (&bytes)[count]) {
    return {reinterpret_cast<const char*>(bytes), count};
}

const PageFile files[] = {
${rows}
};

}  // namespace

std::span<const PageFile> page_files() { return files; }

}  // namespace rtrain::head
`,
);
console.log(`the head's page: ${sum("bytes")} bytes, ${sum("packed")} compressed`);

// Long lines of a log as several rows of equal height. Pure.
import type { LogLine } from "../api/types.ts";
import { shown } from "../text/lines.ts";

export class Wrapping {
  readonly columns: number;
  #lines: readonly LogLine[] = [];
  #first: LogLine | undefined;
  #ends: number[] = [];  // for each line: the number of rows up to its end
  constructor(columns: number) {
    this.columns = Math.max(8, columns);
  }
  // Examines the lines that were added. Begins anew if lines at the begin were removed. Returns itself.
  update(lines: readonly LogLine[]): this {
    if (lines[0] !== this.#first || lines.length < this.#ends.length) this.#ends = [];
    this.#first = lines[0];
    this.#lines = lines;
    for (let at = this.#ends.length; at < lines.length; at += 1) {
      const rows = Math.max(1, Math.ceil(shown(lines[at]!.line).length / this.columns));
      this.#ends.push((this.#ends.at(-1) ?? 0) + rows);
    }
    return this;
  }
  get rows(): number {
    return this.#ends.at(-1) ?? 0;
  }
  rowOf(line: number): number {
    return line <= 0 ? 0 : (this.#ends[line - 1] ?? 0);
  }
  // Returns a row's line and the part of its text.
  at(row: number): { line: LogLine; text: string; first: boolean } {
    let low = 0;
    let high = this.#ends.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#ends[middle]! > row) high = middle;
      else low = middle + 1;
    }
    const line = this.#lines[low]!;
    const part = row - this.rowOf(low);
    return { line, text: shown(line.line).slice(part * this.columns, (part + 1) * this.columns), first: part === 0 };
  }
}

// Returns how many of the lines each rank of each attempt has, the most first.
export function matchesByRank(lines: readonly LogLine[], most: number): { attempt: number; rank: number; count: number }[] {
  const counts = new Map<string, { attempt: number; rank: number; count: number }>();
  for (const { attempt, rank } of lines) {
    const key = `${attempt}/${rank}`;
    const matches = counts.get(key);
    if (matches) matches.count += 1;
    else counts.set(key, { attempt, rank, count: 1 });
  }
  return [...counts.values()].sort((a, b) => b.count - a.count || a.attempt - b.attempt || a.rank - b.rank).slice(0, most);
}

// A line as a file has it.
export function lineText(line: LogLine): string {
  return `${line.time ?? ""} attempt ${line.attempt} rank ${line.rank} ${line.stream}: ${shown(line.line)}\n`;
}

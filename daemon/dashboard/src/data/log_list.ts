// The kept lines of a log, and the lines that a filter shows. Both are changed in place: each of hundreds of thousands
// of lines is examined once, however often the page is drawn. Pure.
import type { LogLine } from "../api/types.ts";
import { type LineFilter, reportsError } from "../text/lines.ts";

// The newest lines, a little more than `most`. The numbers of lines count from the first one that arrived.
export class LineList {
  lines: LogLine[] = [];
  dropped = 0;  // number of older lines that were removed
  cuts = 0;  // incremented when lines at the end are removed
  readonly most: number;
  readonly #slack: number;
  constructor(most: number) {
    this.most = most;
    this.#slack = Math.ceil(most / 10);
  }
  get end(): number {
    return this.dropped + this.lines.length;
  }
  push(line: LogLine): void {
    this.lines.push(line);
    if (this.lines.length > this.most + this.#slack) this.trim();
  }
  trim(): void {
    const over = this.lines.length - this.most;
    if (over <= 0) return;
    this.lines = this.lines.slice(over);
    this.dropped += over;
  }
  // Removes the lines from number `end` on.
  cutTo(end: number): void {
    if (end >= this.end) return;
    this.cuts += 1;
    this.lines = this.lines.slice(0, Math.max(0, end - this.dropped));
    if (end < this.dropped) this.dropped = end;
  }
}

export class LineView {
  readonly #filter: LineFilter;
  #seen = 0;  // lines before this number were examined
  #cuts = -1;
  #error = -1;  // number of the first line that contains an error
  #numbers: number[] = [];  // with a filter: numbers of the visible lines
  visible: readonly LogLine[] = [];
  constructor(filter: LineFilter) {
    this.#filter = filter;
  }
  // Examines the lines that have arrived. Returns itself.
  update(list: LineList): this {
    if (list.cuts !== this.#cuts) {
      this.#cuts = list.cuts;
      this.#seen = list.dropped;
      this.#error = -1;
      this.#numbers = [];
      this.visible = [];
    }
    const from = Math.max(this.#seen, list.dropped);
    if (this.#filter.all) this.visible = list.lines;
    else this.#select(list, from);
    if (this.#error >= 0 && this.#error < list.dropped) {
      this.#error = -1;
      this.#findError(list, list.dropped);
    } else if (this.#error < 0) {
      this.#findError(list, from);
    }
    this.#seen = list.end;
    return this;
  }
  // Returns the index in `visible` of the first line that contains an error; -1 if there is none.
  firstError(list: LineList): number {
    if (this.#error < 0) return -1;
    return this.#filter.all ? this.#error - list.dropped : this.#numbers.indexOf(this.#error);
  }
  #select(list: LineList, from: number): void {
    const gone = this.#numbers.findIndex((number) => number >= list.dropped);
    const kept = gone < 0 ? [] : this.visible.slice(gone);
    this.#numbers = gone < 0 ? [] : this.#numbers.slice(gone);
    for (let number = from; number < list.end; number += 1) {
      const line = list.lines[number - list.dropped]!;
      if (!this.#filter.matches(line.line)) continue;
      kept.push(line);
      this.#numbers.push(number);
    }
    this.visible = kept;
  }
  #findError(list: LineList, from: number): void {
    for (let number = from; number < list.end; number += 1) {
      const { line } = list.lines[number - list.dropped]!;
      if (!reportsError(line) || !this.#filter.matches(line)) continue;
      this.#error = number;
      return;
    }
  }
}

// Reports are numbered anew in each attempt. This module computes their numbers in the run: an attempt continues after
// the report whose checkpoint it started from. Pure.
import type { Attempt } from "../api/types.ts";
import type { Point } from "./series.ts";

export class Continuation {
  readonly #bases = new Map<number, number>([[1, 0]]);

  knows(attempt: number): boolean {
    return this.#bases.has(attempt);
  }

  // Stores where an attempt continues. If that report is not among the given ones, because only levels of it are kept,
  // the attempt continues after all of them.
  learn(attempt: number, attempts: readonly Attempt[], before: readonly Point[]): void {
    if (this.knows(attempt)) return;
    const from = attempts.find((listed_attempt) => listed_attempt.number === attempt)?.from ?? null;
    const origin = from === null ? null : (before.findLast((point) => point.checkpoint === from) ?? before.at(-1));
    this.#bases.set(attempt, origin?.index ?? 0);
  }

  shifted(point: Point): Point {
    return { ...point, index: point.index + (this.#bases.get(point.attempt) ?? 0) };
  }
}

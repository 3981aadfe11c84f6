// The attempts of a run on one time line, each with its end: the rank that failed first, and why.
import { useNow } from "../../api/hooks.ts";
import { Quiet } from "../../parts/panel.tsx";
import { State } from "../../parts/state.tsx";
import type { Attempt } from "../../api/types.ts";
import { address } from "../../router.ts";
import { hasEnded, lookOf } from "../../text/states.ts";
import { exact, moment } from "../../text/time.ts";
import { duration, plural } from "../../text/units.ts";
import type { Shown } from "./shown.ts";

interface Piece {
  kind: string;
  from: number;  // as parts of the whole
  width: number;
  text: string;
}

export function piecesOf(attempt: Attempt, begin: number, end: number, now: number): Piece[] {
  const whole = Math.max(1, end - begin);
  const placed = moment(attempt.placed);
  if (placed === null) return [];
  const last = moment(attempt.ended) ?? now;
  const started = moment(attempt.started);
  const piece = (kind: string, from: number, to: number, text: string): Piece => ({
    kind, from: (from - begin) / whole, width: Math.max(0.002, (to - from) / whole), text: `${text} ${duration(to - from)}`,
  });
  const trains = started === null ? [] : [piece(lookOf(attempt.state).tone, started, Math.max(started, last), hasEnded(attempt.state) ? "trained" : "trains for")];
  return [piece("starting", placed, Math.max(placed, started ?? last), "prepared for"), ...trains];
}

export function Attempts({ run, attempts }: Shown) {
  const now = useNow();
  if (attempts.length === 0) return <Quiet>No attempt has begun.</Quiet>;
  const begin = moment(run.submitted) ?? moment(attempts[0]!.placed) ?? now;
  const end = moment(run.ended) ?? now;
  return (
    <ol class="attempts">
      {[...attempts].reverse().map((one) => (
        <li key={one.number}>
          <div class="attempt-line" aria-hidden="true">
            {piecesOf(one, begin, end, now).map((piece) => (
              <span key={piece.kind} class={`attempt-piece ${piece.kind}`} title={piece.text} style={{ left: `${piece.from * 100}%`, width: `${piece.width * 100}%` }} />
            ))}
          </div>
          <div class="attempt-text">
            <b>Attempt {one.number}</b> <State state={one.state} />
            <span>{plural(one.world_size, "rank")} on {one.nodes.length <= 3 ? one.nodes.join(", ") : plural(one.nodes.length, "node")}, {duration(one.lasted_ms)}</span>
            <span class="quiet">{exact(one.placed)}{one.from ? `, from ${one.from}` : ""}</span>
          </div>
          {one.cause_brief && <p class={one.state === "FAILED" || one.state === "LOST" ? "cause bad-text" : "cause"}>{one.cause_brief}</p>}
          {one.first_failure && (
            <p class="cause">
              First failure: rank {one.first_failure.rank} on {one.first_failure.node}: {firstLine(one.first_failure.cause)}
              {one.first_failure.lead_us > 0 && <span class="quiet"> ({duration(one.first_failure.lead_us / 1000)} before the next)</span>}{" "}
              <a href={address(["runs", run.run_id, "logs"], { attempt: String(one.number), rank: String(one.first_failure.rank), error: "1" })}>Its log, at the first error</a>
            </p>
          )}
        </li>
      ))}
    </ol>
  );
}

function firstLine(text: string): string {
  return text.split("\n")[0] ?? "";
}

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
      {[...attempts].reverse().map((attempt) => (
        <li key={attempt.number}>
          <div class="attempt-line" aria-hidden="true">
            {piecesOf(attempt, begin, end, now).map((piece) => (
              <span key={piece.kind} class={`attempt-piece ${piece.kind}`} title={piece.text} style={{ left: `${piece.from * 100}%`, width: `${piece.width * 100}%` }} />
            ))}
          </div>
          <div class="attempt-text">
            <b>Attempt {attempt.number}</b> <State state={attempt.state} />
            <span>{plural(attempt.world_size, "rank")} on {attempt.nodes.length <= 3 ? attempt.nodes.join(", ") : plural(attempt.nodes.length, "node")}, {duration(attempt.lasted_ms)}</span>
            <span class="quiet">{exact(attempt.placed)}{attempt.from ? `, from ${attempt.from}` : ""}</span>
          </div>
          {attempt.cause_brief && <p class={attempt.state === "FAILED" || attempt.state === "LOST" ? "cause bad-text" : "cause"}>{attempt.cause_brief}</p>}
          {attempt.first_failure && (
            <p class="cause">
              First failure: rank {attempt.first_failure.rank} on {attempt.first_failure.node}: {firstLine(attempt.first_failure.cause)}
              {attempt.first_failure.lead_us > 0 && <span class="quiet"> ({duration(attempt.first_failure.lead_us / 1000)} before the next)</span>}{" "}
              <a href={address(["runs", run.run_id, "logs"], { attempt: String(attempt.number), rank: String(attempt.first_failure.rank), error: "1" })}>Its log, at the first error</a>
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

// A fraction of a whole as a bar, with a text beside it.
import { percent } from "../text/units.ts";

export function Bar({ ratio, text, tone = "" }: { ratio: number; text?: string; tone?: string }) {
  const share = Number.isFinite(ratio) ? Math.max(0, Math.min(1, ratio)) : 0;
  return (
    <span class="bar-line">
      <span class={`bar-track ${tone}`} aria-hidden="true">
        <span class="bar-fill" style={{ width: `${share * 100}%` }} />
      </span>
      <span class="bar-text">{text ?? percent(share)}</span>
    </span>
  );
}

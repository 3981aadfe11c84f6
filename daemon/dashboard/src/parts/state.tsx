// A state as icon and word.
import { lookOf } from "../text/states.ts";
import { Icon } from "./icon.tsx";

export function State({ state, title }: { state: string; title?: string | undefined }) {
  const look = lookOf(state);
  return (
    <span class={`state ${look.tone}`} title={title}>
      <Icon name={look.icon} />
      {look.word}
    </span>
  );
}

// A titled part of a view, and its content while there is no data.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { Problem } from "../api/client.ts";

export function Panel({ title, aside, children, wide }: {
  title: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
  wide?: boolean;
}) {
  const id = useId();
  return (
    <section class={wide ? "panel wide" : "panel"} aria-labelledby={id}>
      <div class="panel-head">
        <h2 id={id}>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  );
}

export function Quiet({ children }: { children: ComponentChildren }) {
  return <p class="quiet">{children}</p>;
}

export function ProblemNote({ problem }: { problem: Problem }) {
  return (
    <div class="note bad" role="alert">
      <p>{problem.message}</p>
      {problem.next && <p class="quiet">Next: {problem.next}</p>}
    </div>
  );
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

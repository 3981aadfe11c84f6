// A question before a change: it explains the effect and requires a second press. Esc and "Cancel" change nothing.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Problem } from "../api/client.ts";
import { ProblemNote } from "./panel.tsx";

export function Dialog({ title, confirm, danger, act, close, children }: {
  title: string;
  confirm: string;
  danger?: boolean;
  act: () => Promise<void>;
  close: () => void;
  children: ComponentChildren;
}) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    const element = box.current;
    if (element && !element.open) element.showModal();
    return () => element?.close();
  }, []);
  // The browser closes the dialog and returns the focus before `close` removes it.
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await act();
      box.current?.close();
    } catch (wrong) {
      setProblem(wrong instanceof Problem ? wrong : new Problem(-1, String(wrong)));
      setBusy(false);
    }
  };
  return (
    <dialog ref={box} aria-labelledby={id} onClose={close}>
      <form onSubmit={(event) => void submit(event)}>
        <h2 id={id}>{title}</h2>
        {children}
        {problem && <ProblemNote problem={problem} />}
        <div class="dialog-end">
          <button type="button" onClick={() => box.current?.close()}>Cancel</button>
          <button type="submit" class={danger ? "danger" : "primary"} disabled={busy}>{confirm}</button>
        </div>
      </form>
    </dialog>
  );
}

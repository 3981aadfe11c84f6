// A command to copy, with a button that confirms the copy.
import { useState } from "preact/hooks";
import { Icon } from "./icon.tsx";
import { Words } from "./words.tsx";

export function Copy({ text }: { text: string }) {
  const [done, setDone] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone("Copied");
    } catch {
      setDone("Not copied: select the text and copy it");
    }
    setTimeout(() => setDone(""), 3_000);
  };
  return (
    <span class="copy">
      <code><Words text={text} /></code>
      <button type="button" class="plain" aria-label={`Copy: ${text}`} onClick={() => void copy()}>
        <Icon name="copy" />
      </button>
      <span role="status" class="quiet">{done}</span>
    </span>
  );
}

// A text whose long names may be broken behind their separators, and nowhere else.
import type { ComponentChildren } from "preact";
import { pieces } from "../text/pieces.ts";

export function Words({ text }: { text: string }) {
  return <>{pieces(text).map((piece, at) => (at === 0 ? piece : [<wbr key={at} />, piece]))}</>;
}

// Texts and numbers of a cell; other content stays as it is.
export const worded = (content: ComponentChildren): ComponentChildren => (typeof content === "string" ? <Words text={content} /> : content);

// Divides the long names in a text behind their separators: "run_2026-01-31" is "run_", "2026-", "01-", "31".
const long_name = 12;

export function pieces(text: string): string[] {
  if (text.length <= long_name) return [text];
  const out: string[] = [""];
  for (const [word] of text.matchAll(/\s+|\S+/g)) {
    const [first, ...others] = word.length > long_name ? word.split(/(?<=[_/.@:=,;&?-])(?=[^_/.@:=,;&?-])/) : [word];
    out[out.length - 1] += first!;
    out.push(...others);
  }
  return out;
}

// Converts lines of logs to visible text, and finds the lines that contain an error.

// Removes colour codes and other terminal controls. Keeps the last state of a line that was redrawn (a progress bar).
// Other control characters become symbols.
const terminal_orders = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

export function shown(line: string): string {
  const plain = line.includes("\u001b") ? line.replace(terminal_orders, "") : line;
  const states = plain.includes("\r") ? plain.split("\r").filter((part) => part.trim() !== "") : [plain];
  const last = states.at(-1) ?? "";
  return last.replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)));
}

const errors =
  /^Traceback \(most recent call last\)|\b(?:[A-Z][A-Za-z]*(?:Error|Exception)|ERROR|FATAL|CRITICAL)\b|\b(?:error|fatal|panic|assertion failed|segmentation fault|out of memory|core dumped)\b[:,! ]|\bterminate called\b/;

export function reportsError(line: string): boolean {
  return errors.test(line);
}

// A filter is a text that must occur, or /expression/ with an optional i behind it. The error is shown to the user.
export interface LineFilter {
  matches: (line: string) => boolean;
  all: boolean;  // true: each line matches
  problem: string;
}

const everything: LineFilter = { matches: () => true, all: true, problem: "" };

export function filterOf(wanted: string): LineFilter {
  if (wanted === "") return everything;
  const form = /^\/(.+)\/(i?)$/.exec(wanted);
  if (!form) {
    const low = wanted.toLowerCase();
    return { matches: (line) => line.toLowerCase().includes(low), all: false, problem: "" };
  }
  try {
    const expression = new RegExp(form[1]!, form[2]);
    return { matches: (line) => expression.test(line), all: false, problem: "" };
  } catch {
    return { ...everything, problem: "This is no regular expression." };
  }
}

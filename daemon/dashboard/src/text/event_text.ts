// The text of an event behind the links to its run and its node.
import type { EventRecord } from "../api/types.ts";

// Removes the name with which the text begins, because the link shows it.
export function eventText(event: Pick<EventRecord, "run_id" | "run_name" | "node" | "text">): string {
  const begin = [event.run_id && event.run_name, event.node].find((name) => name && event.text.startsWith(`${name} `));
  return begin ? event.text.slice(begin.length + 1) : event.text;
}

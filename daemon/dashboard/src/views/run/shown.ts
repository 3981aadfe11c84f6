// The run that the page shows, as each of its parts gets it.
import type { Attempt, EventRecord, Run } from "../../api/types.ts";

export interface Shown {
  run: Run;
  attempts: Attempt[];
  events: EventRecord[];
  owner: boolean;
  reload: () => void;
}

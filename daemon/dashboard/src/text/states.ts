// States of runs, attempts, nodes and ranks. Each has a tone and an icon beside its word, so that colour is never the
// only sign.

export type Tone = "good" | "busy" | "wait" | "bad" | "off";
export type Icon = "play" | "check" | "cross" | "stop" | "clock" | "turn" | "move" | "alert" | "dot" | "away";

interface Look {
  tone: Tone;
  icon: Icon;
  word: string;
}

const looks: Record<string, Look> = {
  QUEUED: { tone: "wait", icon: "clock", word: "Queued" },
  STARTING: { tone: "busy", icon: "turn", word: "Starting" },
  RUNNING: { tone: "good", icon: "play", word: "Running" },
  RECOVERING: { tone: "wait", icon: "turn", word: "Recovering" },
  RESIZING: { tone: "busy", icon: "move", word: "Resizing" },
  STOPPING: { tone: "busy", icon: "stop", word: "Stopping" },
  SUCCEEDED: { tone: "off", icon: "check", word: "Succeeded" },
  FAILED: { tone: "bad", icon: "cross", word: "Failed" },
  STOPPED: { tone: "off", icon: "stop", word: "Stopped" },
  PLACED: { tone: "busy", icon: "turn", word: "Placed" },
  EXITED: { tone: "off", icon: "stop", word: "Exited" },
  LOST: { tone: "bad", icon: "away", word: "Lost" },
  READY: { tone: "good", icon: "check", word: "Ready" },
  DRAINING: { tone: "wait", icon: "move", word: "Draining" },
  QUARANTINED: { tone: "bad", icon: "alert", word: "Quarantined" },
  AWAY: { tone: "wait", icon: "away", word: "Not connected" },
};

export function lookOf(state: string): Look {
  return looks[state] ?? { tone: "off", icon: "dot", word: state };
}

const ended = new Set(["SUCCEEDED", "FAILED", "STOPPED", "LOST"]);
export const hasEnded = (state: string) => ended.has(state);
export const isWaiting = (state: string) => state === "QUEUED" || state === "RECOVERING";

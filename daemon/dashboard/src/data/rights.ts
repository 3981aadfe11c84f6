// Computes what the signed-in user may do. The head decides; the page only leaves out what the head would refuse. Pure.
import type { Run, SessionInfo } from "../api/types.ts";

// Only the run's user and admins see logs, checkpoints and actions.
export function owns(session: SessionInfo | null | undefined, run: Run): boolean {
  if (!session) return false;
  return session.role === "admin" || (session.role === "user" && session.user === run.user);
}

export function isAdmin(session: SessionInfo | null | undefined): boolean {
  return session?.role === "admin";
}

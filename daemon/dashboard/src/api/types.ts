// The head's answers (docs/http-api.md), by the types that types.mjs makes from the head's description of its API. A
// field with `?` exists in some answers only; without it the page shows nothing in its place.
import type { components } from "./described.ts";

type Kinds = components["schemas"];

export type SessionInfo = Kinds["Session"] & { csrf: string };
export type Status = Kinds["Status"];
export type DiskRoom = Kinds["Disk"];
export type TimelineAttempt = Kinds["TimelineAttempt"];
export type TimelineAnswer = Kinds["Timeline"];
export type Holder = Kinds["GpuHolder"];
export type GpuDevice = Kinds["GpuDevice"];
export type NodeRecord = Kinds["Node"];
export type Waiting = Kinds["Waiting"];
export type QueueRecord = Kinds["Queue"];
export type EventRecord = Kinds["Event"];
export type Report = Kinds["Report"];
export type Metrics = NonNullable<Report["metrics"]>;
export type Goodput = Kinds["Goodput"];
export type Advice = Kinds["Advice"];
export type Run = Kinds["Run"];
export type WorkerRecord = Kinds["Worker"];
export type Attempt = Kinds["Attempt"];
export type RankFacts = Kinds["RankUse"];
export type Checkpoint = Kinds["Checkpoint"];
export type VerifiedFiles = Kinds["VerifiedFiles"];
export type Explanation = Kinds["Explanation"];
export type LogLine = Kinds["LogLine"];
export type Token = Kinds["Token"];
export type KeptBytes = Kinds["KeptBytes"];
export type Quota = Kinds["Quota"];
export type AuditRow = Kinds["AuditRow"];
export type RunHistory = Kinds["RunHistory"];
export type RanksHistory = Kinds["RanksHistory"];
export type UsageHistory = Omit<Kinds["ClusterHistory"], "key">;  // the use of the cluster, a node or a rank

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

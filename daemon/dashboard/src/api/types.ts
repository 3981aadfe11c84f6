// The records of the head's API that the page reads (docs/http-api.md). A field with `?` exists in some answers only;
// without it the page shows nothing in its place.

export type Role = "viewer" | "user" | "admin";

export interface SessionInfo {
  csrf: string;
  user: string;
  role: Role;
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export interface Status {
  cluster_id: string;
  name: string;
  version: string;
  started: string;
  now: string;
  nodes: Record<string, number>;
  runs: Record<string, number>;
  gpus: { total: number; allocated: number };
  cpus: { total: string; allocated: string };
  storage_root?: string;
  health?: { memory_bytes: number | null; longest_task_seconds: number | null; data_disk: DiskRoom | null; storage_disk: DiskRoom | null };
  storage_warning: string | null;
}

export interface DiskRoom {
  size: number;  // in bytes
  free: number;
}

// An attempt that held resources of nodes.
export interface TimelineAttempt {
  run_id: string;
  name: string;
  user: string;
  state: string;
  attempt: number;
  attempt_state: string;
  placed: string;
  ended: string | null;  // null: it holds them still
  nodes: { node: string; gpus: number[] }[];
}

export interface TimelineAnswer {
  items: TimelineAttempt[];
  whole: boolean;  // false: there are more
}

export interface Holder {
  run: string;
  run_id?: string;
  rank?: number;
  amount?: string;
}

export interface GpuDevice {
  index: number;
  free?: string;
  held_by?: Holder[];
  uuid?: string;
  utilization_ratio?: number | null;
  memory_used?: number | null;
  memory_total?: number | null;
  power_watts?: number | null;
  temperature_celsius?: number | null;
  ecc_errors?: number | null;
  xids?: Record<string, number>;
  foreign_processes?: number | null;
}

export interface NodeRecord {
  node: string;
  state: string;
  connected: boolean;
  address: string;
  port: number;
  resources: Record<string, string>;
  free: Record<string, string>;
  gpus: number;
  gpus_free: string;
  gpu_model: string;
  labels: Record<string, string>;
  registered: string | null;
  last_heartbeat_ms: number | null;
  reason: string;
  warnings: string[];
  drain_deadline: string | null;
  failures: number;
  memory_used: number;
  memory_total: number;
  version: string;
  runs: string[];
  facts: Record<string, unknown>;
  gpu_devices?: GpuDevice[];
}

export interface Waiting {
  position: number | null;
  run_id: string;
  name: string;
  state: string;
  queue: string;
  priority: number;
  starts_in_ms: number | null;
  waiting_ms: number;
  needs: string;
  why: string;
}

// GPU hours within the queue's window. No user: the budget of the whole queue.
export interface Budget {
  user: string | null;
  gpu_hours: number;
  used: number;
  used_up: boolean;
  frees_in_ms: number | null;
}

export interface QueueRecord {
  name: string;
  parent: string | null;
  share: number;
  borrow: boolean;
  preempt: boolean;
  waiting: number;
  running: number;
  in_use: Record<string, string>;
  quota: Record<string, string>;
  user_runs: number | null;
  user_gpus: string | null;
  gpu_hours: string | null;
  user_gpu_hours: string | null;
  budget_window: string;
  budgets: Budget[];
  recent_use: Record<string, string>;
}

export interface EventRecord {
  id: number;
  time: string | null;
  kind: string;
  run_id: string | null;
  run_name: string | null;
  node: string | null;
  text: string;
}

export type Metrics = Record<string, unknown>;

export interface Report {
  attempt: number;
  index: number;
  time: string | null;
  position: number | null;
  checkpoint?: string;
  metrics?: Metrics;
  metrics_by_rank?: Record<string, Metrics>;
}

export interface Goodput {
  wall_ms: number;
  ratio: number;
  causes_ms: Record<string, number>;
}

export interface Advice {
  kind: string;
  text: string;
}

export interface Run {
  run_id: string;
  name: string;
  user: string;
  state: string;
  reason: string;
  reason_brief: string;
  submitted: string | null;
  started: string | null;
  ended: string | null;
  attempt: number;
  attempts: number;
  failures: number;
  max_failures: number;
  workers: number;
  workers_min: number;
  workers_max: number;
  needs: string;
  queue: string;
  priority: number;
  storage_path: string;
  run_path: string;
  nodes: string[];
  last_report: Report | null;
  checkpoints: number;
  latest_checkpoint: string | null;
  restored_from: string | null;
  warnings: string[];
  checkpoint_asked: { reason: string; why: string; asked: string; deadline: string | null; workers: number | null } | null;
  after: { run_id: string; until: string }[];
  array: string | null;
  stop?: Record<string, unknown>;  // the job's
  labels: Record<string, string>;
  job?: Record<string, unknown> | null;
  goodput?: Goodput;
  advice?: Advice[];
}

export interface WorkerRecord {
  rank: number;
  node: string;
  local_rank: number;
  state: string;
  pid: number;
  gpus: number[];
  exit_code: number | null;
  signal: number | null;
  out_of_memory: boolean;
  cause: string;
  stopped_with_attempt: boolean;
}

export interface Attempt {
  number: number;
  state: string;
  placed: string | null;
  started: string | null;
  ended: string | null;
  lasted_ms: number;
  from: string | null;
  cause: string;
  cause_brief: string;
  world_size: number;
  nodes: string[];
  first_failure: { rank: number; node: string; lead_us: number; cause: string } | null;
  workers: WorkerRecord[];
}

export interface RankFacts {
  rank: number;
  node: string;
  attempt: number;
  memory_bytes: number | null;
  cpu_seconds: number | null;
  data_wait_seconds: number | null;
  interval_ms: number | null;
  heartbeat_age_ms: number | null;
  silent_ms: number | null;
  gpu_utilization_ratio?: number | null;  // mean over its GPUs
  gpu_memory_bytes?: number | null;  // sum over its GPUs
}

export interface Checkpoint {
  directory: string;
  attempt: number;
  sequence: number;
  world_size: number;
  bytes: number;
  metrics: Record<string, number | null>;
  committed: string | null;
  path: string;
  deleting: boolean;
  verified: string | null;  // time of the last `rtrain checkpoints verify` of its files
  faults: number | null;  // number of missing or damaged files at that time
  latest: boolean;
}

export interface VerifiedFiles {
  directory: string;
  faults: number;
  damaged: string[];  // the first ones
}

export interface Explanation {
  headline: string;
  state: string;
  verdict: string | null;
  queue: { name: string; position: number; length: number } | null;
  rules: string[];
  nodes: number;
  fitting: number;
  groups: { nodes: number; kind: string; text: string; field: string | null; line: string | null }[];
  reasons: { node: string; text: string }[];
  holders: string[];
  nearest_change: string;
  proved: boolean;
}

export interface LogLine {
  attempt: number;
  rank: number;
  stream: string;
  time: string | null;
  line: string;
  state?: string;
  goes_on?: boolean;
}

export interface Token {
  id: string;
  role: string;
  user: string;
  created: string | null;
  expires: string | null;
  uses_left: number | null;
  revoked: boolean;
  last_used?: string | null;
}

export interface KeptBytes {
  memory: number;
  database: number;
  files: number;
  storage: number;
}

// The bytes that the head keeps for a user, and their limit.
export interface Quota {
  user: string;
  used: KeptBytes;
  limit: KeptBytes;
  own_limit: boolean;  // false: the limit that all users have
}

export interface AuditRow {
  sequence: number;
  time: string | null;
  user: string;
  role: string;
  credential: string;
  from: string;
  action: string;
  target: string;
  run: string;
}

// The least and the greatest values of a metric in a limited number of points.
export interface RunHistory {
  last: number;  // position of the newest report
  keys?: string[];  // present if no key was requested
  reports_per_point?: number;
  points?: { position: number[]; attempt: number[]; step: number[]; time_ms: number[]; min: number[]; max: number[] };
}

// One value of each rank in the last day.
export interface RanksHistory {
  last: number;  // time of the newest sample, in seconds since 1970
  ranks: { rank: number; points: NonNullable<UsageHistory["points"]> }[];
}

// The use of a node or a rank in the last day.
export interface UsageHistory {
  last: number;  // time of the newest sample, in seconds since 1970
  keys?: string[];  // present if no key was requested
  seconds_per_point?: number;
  points?: { time_ms: number[]; min: number[]; max: number[] };
}

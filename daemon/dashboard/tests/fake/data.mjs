// Invented records for server.mjs, in the form of the head's records.
const begin = Date.now();
const iso = (before_ms) => new Date(Date.now() - before_ms).toISOString();
const at = (ms) => new Date(begin + ms).toISOString();
const minute = 60_000;
const hostile = `<img src=x onerror=document.title='owned'>`;

function chance(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const base = {
  user: "ada", reason: "", reason_brief: "", reason_kind: null, failures: 0, max_failures: 3, workers_min: 8, workers_max: 8, queue: "research",
  priority: 0, storage_path: "s3://models/runs", warnings: [], checkpoint_asked: null, after: [], array: null, labels: {}, restored_from: null,
};
const job = (name, more = {}) => ({
  version: 1, name, entrypoint: "python train.py", scaling: { workers: 8, resources_per_worker: { CPU: 4, GPU: 1 } }, stop: { step: 4000 },
  checkpoint: { num_to_keep: 5, score_attribute: "val_loss", score_order: "min" }, env: { LR: "3e-4" }, ...more,
});

const long = {
  ...base, run_id: "run-12", name: "llama-1b-pretrain", state: "RUNNING", submitted: at(-95 * minute), started: at(-92 * minute), ended: null, attempt: 3,
  attempts: 3, failures: 2, workers: 8, needs: "8 x {CPU: 4, GPU: 1}", run_path: "s3://models/runs/llama-1b-pretrain", nodes: ["gpu-01", "gpu-02"], checkpoints: 5,
  latest_checkpoint: "checkpoint_000026-a003", job: job("llama-1b-pretrain"),
  goodput: {
    wall_ms: 5_671_000, ratio: 0.8305,
    causes_ms: {
      productive: 4_710_000, queue: 170_000, detect: 12_000, schedule: 3_000, start: 84_000,
      restore: 61_000, replay: 142_000, checkpoint: 96_000, data: 205_000, straggler: 188_000,
    },
  },
  advice: [{ kind: "straggler", text: "Ranks wait 4 % of the time for rank 5 on gpu-02." }],
};

export function runs() {
  const rows = reports(long, "0");
  const other = (name, id, more) => ({ ...base, name, run_id: id, submitted: iso(300 * minute), started: iso(290 * minute), ended: iso(40 * minute), attempt: 1, attempts: 1, workers: 4, needs: "4 x {CPU: 4, GPU: 1}", nodes: [], checkpoints: 3, latest_checkpoint: "checkpoint_000011-a001", run_path: `s3://models/runs/${name}`, last_report: { attempt: 1, index: 400, time: iso(41 * minute), position: 1, metrics: { loss: 0.4 } }, job: job(name, { env: { LR: "1e-4" } }), ...more });
  return [
    { ...long, last_report: rows.at(-1) },
    other("resnet-ablation-7", "run-14", { state: "QUEUED", started: null, ended: null, attempts: 0, attempt: 0, last_report: null, checkpoints: 0, latest_checkpoint: null, reason: "no room", reason_brief: "waits for 16 GPUs; 9 are free", user: "lin", queue: "batch", workers: 16, needs: "16 x {CPU: 8, GPU: 1}" }),
    other("whisper-tune", "run-13", { state: "SUCCEEDED", user: "grace" }),
    other(hostile, "run-11", { state: "FAILED", reason_brief: "rank 2 on gpu-04 ended with exit code 1: RuntimeError: CUDA error: device-side assert", failures: 4, attempts: 4, attempt: 4 }),
    other("digits", "run-10", { state: "STOPPED", user: "lin" }),
    other("search", "run-8", { state: "RUNNING", ended: null, workers: 1, needs: "1 x {CPU: 1}" }),
    ...[0, 1, 2].map((trial) => other(`train_digits_2026-01-31_12-00-00_0000${trial}`, `run-2${trial}`, { state: trial === 0 ? "RUNNING" : "STOPPED", ended: trial === 0 ? null : iso(40 * minute), reason_brief: trial === 0 ? "" : "stopped by its sweep's scheduler", workers: 1, needs: "1 x {CPU: 1}", labels: { "rtrain.parent": "run-8", "rtrain.sweep": "train_digits_2026-01-31_12-00-00" } })),
    other("Counter-4a1b3e37", "run-23", { state: "RUNNING", ended: null, workers: 1, needs: "1 x {CPU: 1}", last_report: null, labels: { "rtrain.parent": "run-8", "rtrain.remote": "actor" } }),
    ...[1, 2].map((member) => other(`grid-${member}`, `run-3${member}`, { array: "grid", labels: { team: "vision" }, priority: 10 * member, needs: "4 x {CPU: 4, GPU: 0.5}" })),
    other("vit-large", "run-9", { state: "RECOVERING", ended: null, reason_brief: "waits 8 s before attempt 2: node gpu-07 was lost", user: "grace", attempts: 2, attempt: 2 }),
  ];
}

export function status() {
  const all = nodes();
  const states = {};
  for (const node of all) states[node.state] = (states[node.state] ?? 0) + 1;
  const gpus = all.reduce((sum, node) => sum + node.gpus, 0);
  const free = all.reduce((sum, node) => sum + Number(node.gpus_free), 0);
  return { cluster_id: "c", name: "atlas", version: "0.1.0", started: at(-9000 * minute), now: iso(0), address: "x", nodes: states, runs: { RUNNING: 41, QUEUED: 6, SUCCEEDED: 128, FAILED: 3, RECOVERING: 1 }, gpus: { total: gpus, allocated: gpus - free }, cpus: { total: String(all.length * 96), allocated: String(Math.round(all.length * 61)) }, token: {}, health: { memory_bytes: 310e6, longest_task_seconds: 0.013, data_disk: { size: 480e9, free: 391e9 }, storage_disk: { size: 80e12, free: 4.1e12 } }, storage_root: "/mnt/models", storage_warning: null };
}

const names = ["llama-1b-pretrain", "vit-large", "whisper-tune-2", "bert-distil", "diffusion-xl", "protein-fold", "rl-arena", "speech-base", "mixtral-sft", "weather-ens"];

export function nodes() {
  const count = Number(process.env.FAKE_NODES ?? 14);
  const of = chance(7);
  return Array.from({ length: count }, (_, at_) => {
    const luck = of();
    const state = luck < 0.03 ? "QUARANTINED" : luck < 0.06 ? "DRAINING" : luck < 0.08 ? "LOST" : "READY";
    const held = state === "READY" || state === "DRAINING" ? (of() < 0.75 ? 8 : Math.floor(of() * 8)) : 0;
    const run = names[Math.floor(of() * names.length)];
    const second = names[Math.floor(of() * names.length)];
    const devices = Array.from({ length: 8 }, (_, index) => {
      const holder = index < held ? (index < 4 ? run : second) : null;
      return { index, uuid: `GPU-${at_}-${index}`, free: holder ? "0" : "1", held_by: holder ? [{ run: holder, rank: index, amount: "1" }] : [], utilization_ratio: holder ? 0.7 + 0.3 * of() : 0, memory_used: holder ? 61e9 + 15e9 * of() : 4e8, memory_total: 85899345920, power_watts: holder ? 480 + 200 * of() : 72, temperature_celsius: holder ? 58 + Math.round(14 * of()) : 31, xids: state === "QUARANTINED" && index === 3 ? { 79: 2 } : {}, ecc_errors: 0, foreign_processes: at_ === 0 && index === 6 ? 2 : 0 };
    });
    return {
      node: `gpu-${String(at_ + 1).padStart(count > 99 ? 4 : 2, "0")}`, state, connected: state !== "LOST", address: "10.0.0.7", port: 7434, resources: { CPU: "96", GPU: "8", memory: "1099511627776" }, free: { CPU: String(96 - held * 9 - Math.floor(of() * 10)), GPU: String(8 - held) }, gpus: 8, gpus_free: String(8 - held), gpu_model: "NVIDIA H100 80GB HBM3", labels: { rack: `r${at_ % 4}` }, registered: at(-9000 * minute), last_heartbeat_ms: 400, reason: state === "QUARANTINED" ? "3 attempts of 2 runs failed first here within an hour" : state === "LOST" ? "no heartbeat for 30 s" : state === "DRAINING" ? "kernel update, by grace" : "", warnings: [], drain_deadline: null, failures: 0, memory_used: held * 9e10 + 3e10 * of(), memory_total: 1099511627776, version: "0.1.0", runs: [...new Set(devices.flatMap((device) => device.held_by.map((two) => two.run)))], facts: { kernel: "6.1.0", driver: "560.35" }, gpu_devices: devices,
    };
  });
}

// Attempts of the last week, one behind the other on each node.
export function timeline(query) {
  const from = Number(query.get("from_ms"));
  const until = Number(query.get("until_ms"));
  const wanted = query.get("node")?.split(",");
  const items = nodes().filter((node) => !wanted || wanted.includes(node.node)).flatMap((node, place) => {
    const of = chance(place + 11);
    const attempts_of_node = [];
    for (let end = Date.now() + 40 * minute * of(), n = 0; end > Date.now() - 7 * 24 * 60 * minute; n += 1) {
      const begin = end - (20 + 400 * of()) * minute;
      const name = names[Math.floor(of() * names.length)];
      const half = of() < 0.3;
      const live = end > Date.now();
      for (const gpus of half ? [[0, 1, 2, 3], [4, 5, 6, 7]] : [[0, 1, 2, 3, 4, 5, 6, 7]])
        attempts_of_node.push({ run_id: `run-${900 + n}`, name: gpus[0] === 4 ? names[Math.floor(of() * names.length)] : name, user: ["ada", "lin", "grace"][n % 3], state: "SUCCEEDED", attempt: 1 + (n % 2), attempt_state: of() < 0.15 ? "FAILED" : live ? "RUNNING" : "SUCCEEDED", placed: new Date(begin).toISOString(), ended: live ? null : new Date(end).toISOString(), nodes: [{ node: node.node, gpus }] });
      end = begin - 60 * minute * of();
    }
    return attempts_of_node;
  });
  return { items: items.filter((attempt) => Date.parse(attempt.placed) < until && (attempt.ended === null || Date.parse(attempt.ended) > from)), whole: true };
}

export const cluster_keys = ["cpus", "cpus_allocated", "cpus_used", "data_free_bytes", "gpus", "gpus_allocated", "gpus_used", "head_longest_task_seconds", "head_memory_bytes", "runs_running", "runs_waiting", "storage_free_bytes"];

export const queue = () => [
  { position: 1, run_id: "run-14", name: "resnet-ablation-7", state: "QUEUED", queue: "batch", priority: 0, starts_in_ms: 14 * minute, waiting_ms: 22 * minute, needs: "16 x {CPU: 8, GPU: 1}", why: "9 nodes have too few free GPUs: 4 free, 8 needed" },
  { position: 2, run_id: "run-9", name: "vit-large", state: "RECOVERING", queue: "research", priority: 0, starts_in_ms: null, waiting_ms: 8_000, needs: "4 x {CPU: 4, GPU: 1}", why: "waits 8 s before attempt 2" },
  { position: null, run_id: "run-15", name: "eval-after", state: "QUEUED", queue: "batch", priority: 0, starts_in_ms: null, waiting_ms: 90 * minute, needs: "1 x {CPU: 2}", why: "waits for llama-1b-pretrain to succeed" },
];

export const queues = () => [
  { name: "research", parent: null, share: 3, borrow: true, preempt: true, waiting: 1, running: 24, in_use: { GPU: "62", CPU: "410" }, quota: { GPU: "64" }, user_runs: null, user_gpus: null, gpu_hours: "5000", user_gpu_hours: "500", budget_window: "30d",
    budgets: [{ user: null, gpu_hours: 5000, used: 3120.5, used_up: false, frees_in_ms: null }, { user: "ana", gpu_hours: 500, used: 500.25, used_up: true, frees_in_ms: 5400000 }], recent_use: { GPU: "58" } },
  { name: "batch", parent: null, share: 1, borrow: false, preempt: false, waiting: 2, running: 9, in_use: { GPU: "31", CPU: "200" }, quota: { GPU: "24" }, user_runs: null, user_gpus: null, gpu_hours: null, user_gpu_hours: null, budget_window: "30d", budgets: [], recent_use: { GPU: "20" } },
];

export function events() {
  const kinds = [
    ["RunSubmitted", "run-14", "resnet-ablation-7", null, "submitted by lin"], ["NodeHeartbeat", null, null, "gpu-07", "lost: no heartbeat for 30 s"],
    ["RunPlaced", "run-12", "llama-1b-pretrain", null, "attempt 3 placed on gpu-01, gpu-02"], ["CheckpointCommitted", "run-12", "llama-1b-pretrain", null, "checkpoint_000026-a003 committed, 2.6 GiB"],
    ["AttemptFailed", "run-11", hostile, null, "attempt 4 failed: rank 2 on gpu-04 ended with exit code 1"], ["RunEnded", "run-13", "whisper-tune", null, "succeeded"],
  ];
  return Array.from({ length: 60 }, (_, at_) => {
    const [kind, run_id, run_name, node, text] = kinds[at_ % kinds.length];
    return { id: at_ + 1, time: iso((60 - at_) * 47_000), kind, run_id, run_name, node, text };
  });
}

export function attempts(run) {
  const workers = (number, failed) => Array.from({ length: run.workers }, (_, rank) => ({ rank, node: rank < run.workers / 2 ? "gpu-01" : "gpu-02", local_rank: rank % 4, node_rank: 0, state: number === run.attempts && !run.ended ? "running" : "exited", pid: 4000 + rank, gpus: [rank % 8], exit_code: failed ? (rank === 5 ? 1 : null) : number === run.attempts && !run.ended ? null : 0, signal: failed && rank !== 5 ? 15 : null, out_of_memory: false, cause: failed && rank === 5 ? "exit code 1\nRuntimeError: CUDA error: an illegal memory access was encountered" : "", stopped_with_attempt: failed && rank !== 5 }));
  const attempt = (number, from, to, state, cause) => ({ number, state, placed: at(from * minute), started: at((from + 1.2) * minute), ended: to === null ? null : at(to * minute), lasted_ms: ((to ?? (Date.now() - begin) / minute) - from) * minute, from: number > 1 ? `checkpoint_00000${number * 4}-a00${number - 1}` : null, cause, cause_brief: cause, cause_kind: null, world_size: run.workers, nodes: ["gpu-01", "gpu-02"], first_failure: state === "FAILED" ? { rank: 5, node: "gpu-02", lead_us: 410_000, cause: "exit code 1: RuntimeError: CUDA error: an illegal memory access was encountered" } : null, workers: workers(number, state === "FAILED") });
  if (run.attempts === 0) return [];
  return [attempt(1, -92, -61, "FAILED", "rank 5 on gpu-02 ended with exit code 1"), attempt(2, -59, -34, "LOST", "node gpu-07 was lost"), attempt(3, -31, run.ended ? -2 : null, run.ended ? run.state : "RUNNING", "")].slice(0, Math.max(1, run.attempts));
}

export function reports(run, rank) {
  const of = chance(Number(run.run_id.slice(4)) * 31);
  const rows = [];
  if (run.started === null) return rows;
  let position = 0;
  const span = (attempt, from, to, first) => {
    const count = Math.floor((to - from) / 4000);
    for (let n = 0; n < count; n += 1) {
      position += 1;
      const index = first + n;
      const step = index * 2;
      const value = (shift) => ({ step, loss: 2.2 * Math.exp(-index / 420) + 0.55 + 0.09 * (of() - 0.5) + shift, val_loss: 2.3 * Math.exp(-index / 460) + 0.61 + 0.02 * of(), lr: 3e-4 * Math.min(1, index / 60) * (0.5 + 0.5 * Math.cos(index / 420)), grad_norm: 0.4 + 0.9 * of() * Math.exp(-index / 300), tokens_per_s: 182_000 + 9_000 * of(), [hostile]: of() });
      const ranks = rank === "all" || rank.includes("-") ? { metrics_by_rank: Object.fromEntries(Array.from({ length: Math.min(16, run.workers) }, (_, one_rank) => [one_rank, value(one_rank * 0.02)])) } : { metrics: value(0) };
      rows.push({ attempt, index, time: new Date(begin + from + n * 4000).toISOString(), position, ...(n % 50 === 49 ? { checkpoint: `checkpoint_0000${String(Math.floor(index / 50)).padStart(2, "0")}-a00${attempt}` } : {}), ...ranks });
    }
    return first + count;
  };
  const a = span(1, -91 * minute, -61 * minute, 0);
  const b = span(2, -58 * minute, -34 * minute, a - 35);
  span(3, -30 * minute, Date.now() - begin, b - 20);
  return rows;
}

export function ranks(run) {
  return Array.from({ length: run.workers }, (_, rank) => ({ rank, node: rank < run.workers / 2 ? "gpu-01" : "gpu-02", attempt: run.attempt, memory_bytes: 21e9 + rank * 3e8, cpu_seconds: (Date.now() - begin) / 1000 * (2.1 + rank * 0.1), data_wait_seconds: (Date.now() - begin) / 1000 * 0.04, interval_ms: Math.round(3600 + 300 * Math.random() + (rank === 5 ? 1700 : 0)), heartbeat_age_ms: 200, silent_ms: 300, gpu_utilization_ratio: 0.8 + 0.02 * (rank % 8), gpu_memory_bytes: 61e9 + rank * 1e9 }));
}

// The use of a node or a rank: a sample per 15 s of the last day, with a gap of an hour.
export function history(about, keys, query) {
  const key = query.get("key");
  const last = Math.floor(Date.now() / 1000);
  if (key === null) return { ...about, keys, last };
  const from = Math.max(last - 86_400, Number(query.get("from") ?? 0) / 1000);
  const width = Math.max(1, Math.floor((last - from) / Number(query.get("points") ?? 500)));
  const of = chance(keys.indexOf(key) + 3);
  const of_cluster = { gpus: 112, gpus_allocated: 101, gpus_used: 84, cpus: 1344, cpus_allocated: 900, cpus_used: 640, runs_running: 41, runs_waiting: 9, head_longest_task_seconds: 0.02, head_memory_bytes: 3.2e8, data_free_bytes: 3.9e11, storage_free_bytes: 4e12 };
  const size = of_cluster[key] ?? (key.endsWith("ratio") ? 0.9 : key === "cpu_cores" ? 40 : key.endsWith("second") ? 3e8 : 5e10);
  const points = { time_ms: [], min: [], max: [] };
  for (let time = from; time <= last; time += width) {
    const value = size * (0.7 + 0.2 * Math.sin(time / 900) + 0.05 * of());
    if (time > last - 1500 && time < last - 1200) continue;
    points.time_ms.push(time * 1000);
    points.min.push(value);
    points.max.push(value * (1 + 0.1 * of()));
  }
  return { ...about, key, last, seconds_per_point: width, points };
}

// Without a key: the keys. Each point is one report.
export function metricsHistory(run, query) {
  const rows = reports(run, "0");
  const key = query.get("key");
  const last = rows.at(-1)?.position ?? 0;
  if (key === null) return { run_id: run.run_id, keys: Object.keys(rows[0]?.metrics ?? {}), last: Math.min(last, 60_000) };
  const few = rows.filter((_, at) => at % Math.ceil(rows.length / Number(query.get("points"))) === 0);
  const of = (value) => few.map(value);
  const values = of((report) => report.metrics[key]);
  return { run_id: run.run_id, key, last, reports_per_point: 1, points: { position: of((report) => report.position), attempt: of((report) => report.attempt), step: of((report) => report.index), time_ms: of((report) => Date.parse(report.time)), min: values, max: values } };
}

// Rank 5 is slow. The others wait for it, so that all have the same time between two reports.
export function ranksHistory(run, query) {
  const own = query.get("key") === "own_time_ratio";
  const points = (rank) => history({}, ["x"], new URLSearchParams({ key: "x", from: query.get("from") ?? "0", points: query.get("points") ?? "120" })).points.time_ms.map((time) => [time, own ? (rank === 5 ? 0.97 : 0.62) : 3.9]);
  return { run_id: run.run_id, key: query.get("key"), last: Math.floor(Date.now() / 1000), ranks: Array.from({ length: run.workers }, (_, rank) => ({ rank, seconds_per_point: 16, points: { time_ms: points(rank).map(([time]) => time), min: points(rank).map(([, value]) => value), max: points(rank).map(([, value]) => value) } })) };
}

const traffic = ["network_received_bytes_per_second", "network_sent_bytes_per_second", "disk_read_bytes_per_second", "disk_written_bytes_per_second"];
export const rank_keys = ["cpu_cores", "memory_bytes", "gpu_utilization_ratio", "gpu_memory_bytes", ...traffic];
export const node_keys = ["cpu_cores", "memory_bytes", ...Array.from({ length: 8 }, (_, at_) => [`gpu${at_}_utilization_ratio`, `gpu${at_}_memory_bytes`]).flat(), ...traffic];

export function checkpoints(run) {
  return Array.from({ length: Math.max(0, run.checkpoints) }, (_, at_) => ({ directory: `checkpoint_0000${22 + at_}-a003`, attempt: 3, sequence: 22 + at_, world_size: 8, bytes: 2.6 * 2 ** 30 + at_ * 1000, metrics: { val_loss: 0.71 - at_ * 0.011, loss: 0.66 - at_ * 0.01 }, committed: iso((5 - at_) * 6 * minute), path: `${run.run_path}/checkpoint_0000${22 + at_}-a003`, deleting: false, latest: at_ === run.checkpoints - 1 }));
}

export const explanation = (run) => ({ headline: `${run.name} waits for room: it needs 16 GPUs on nodes with 8 free, and 1 of 14 nodes fits.`, state: run.state, verdict: "pending", queue: { name: run.queue, position: 1, length: 3 }, rules: ["nodes gpu-03 and gpu-04 are reserved for it from 14 min on"], nodes: 14, fitting: 1, groups: [{ nodes: 9, kind: "too full", text: "4 GPUs free, bundle needs 8", field: "scaling.resources_per_worker", line: "job.yaml:7" }, { nodes: 2, kind: "out of use", text: "quarantined", field: null, line: null }], reasons: [], holders: ["llama-1b-pretrain", "diffusion-xl"], nearest_change: "with scaling.workers: 8 it would start now", proved: true });

export function logs(run, query) {
  const lines = [];
  const count = Number(process.env.FAKE_LINES ?? 50_000);
  for (let n = 0; n < count; n += 1) {
    const rank = n % run.workers;
    const line = n === Math.floor(count * 0.7) ? "Traceback (most recent call last):" : n === Math.floor(count * 0.7) + 1 ? `RuntimeError: CUDA error: an illegal memory access was encountered ${hostile}` : n % 97 === 0 ? "\u001b[33mwarning\u001b[0m: gradient overflow, the step is skipped" : `step ${n} loss ${(2.2 * Math.exp(-n / 20_000) + 0.5).toFixed(4)} lr 3.0e-04 tokens/s 182${n % 1000}`;
    lines.push({ attempt: Number(query.get("attempt")) || 1, rank, stream: n % 97 === 0 ? "err" : "out", time: at(-30 * minute + n * 30), line });
  }
  const rank = query.get("rank") ?? "all";
  return rank === "all" || rank === "failed" ? lines : lines.filter((line) => String(line.rank) === rank);
}

export const tokens = () => [
  { id: "1f2e3d4c5b6a", role: "admin", user: "ada", created: at(-9000 * minute), expires: null, uses_left: null, revoked: false, last_used: iso(4_000) },
  { id: "aa11bb22cc33", role: "user", user: "lin", created: at(-4000 * minute), expires: iso(-60 * 24 * 60 * minute), uses_left: null, revoked: false, last_used: iso(900_000) },
  { id: "dd44ee55ff66", role: "viewer", user: "grafana", created: at(-4000 * minute), expires: null, uses_left: null, revoked: false, last_used: null },
  { id: "001122334455", role: "user", user: "old", created: at(-9000 * minute), expires: null, uses_left: null, revoked: true },
];

export const audit = () =>
  Array.from({ length: 40 }, (_, at_) => ({ sequence: at_ + 1, time: iso((40 - at_) * 333_000), wall_ms: 0, user: ["ada", "lin", "grace"][at_ % 3], role: "user", credential: "aa11bb22cc33", from: "10.0.0.31", action: ["POST /v1/runs", "POST /v1/runs/{run}/stop", "DELETE /v1/tokens/{id}"][at_ % 3], target: [`/v1/runs name=${names[at_ % names.length]}`, `/v1/runs/run-${at_}/stop`, "/v1/tokens/aa11bb22cc33"][at_ % 3], run: "", hash: "" }));

export const quota = (user) => {
  const used = { memory: 41e6, database: 310e6, files: 2.1e9, storage: 8.8e11 };
  return { user, used, limit: { memory: 536870912, database: 4294967296, files: 10737418240, storage: 2e13 }, own_limit: user === "lin", kinds: { runs: used } };
};

import assert from "node:assert/strict";
import { test } from "node:test";
import type { AuditRow } from "../../src/api/types.ts";
import { changesOf, quotaIn, quotaText } from "../../src/data/queue_rules.ts";
import { auditText } from "../../src/text/audit_text.ts";

const sentence = (action: string, target: string) => auditText({ action, target } as AuditRow);

test("the audit says in words what was done, to whom", () => {
  assert.equal(sentence("POST /v1/nodes/{node}/drain", "/v1/nodes/gpu-3/drain"), "drained node gpu-3");
  assert.equal(sentence("POST /v1/nodes/{node}/undrain", "/v1/nodes/a%20b/undrain"), "returned node a b to service");
  assert.equal(sentence("POST /v1/nodes/{node}/quarantine", "/v1/nodes/gpu-3/quarantine"), "quarantined node gpu-3");
  assert.equal(sentence("POST /v1/runs/{run}/priority", "/v1/runs/llama/priority priority=80"), "changed the priority of run llama to 80");
  assert.equal(sentence("POST /v1/runs/{run}/restore", "/v1/runs/run-3/restore checkpoint=best name=llama"), "restored run llama from run run-3, best");
  assert.equal(sentence("POST /v1/runs/{run}/restore", "/v1/runs/run-3/restore name=llama"), "restored run llama from run run-3");
  assert.equal(sentence("POST /v1/runs/{run}/checkpoints/verify", "/v1/runs/run-3/checkpoints/verify checkpoint=best faults=0"), "verified best of run run-3: intact");
  assert.equal(sentence("POST /v1/runs/{run}/checkpoints/verify", "/v1/runs/run-3/checkpoints/verify checkpoint=best faults=2"), "verified best of run run-3: 2 files damaged");
  assert.equal(sentence("POST /v1/runs", "/v1/runs name=llama"), "submitted run llama");
  assert.equal(sentence("DELETE /v1/runs/{run}", "/v1/runs/llama?files=true"), "removed run llama and its files");
  assert.equal(sentence("POST /v1/tokens", "/v1/tokens id=1f2e role=user user=lin"), "made a token of role user for lin");
  assert.equal(sentence("POST /v1/tokens", "/v1/tokens id=1f2e role=node user="), "made a token with which nodes join");
  assert.equal(sentence("PUT /v1/quotas/{user}", '/v1/quotas/lin limit={"database":5,"files":2147483648}'), "set the limits of what the head keeps for lin: database 5 B, files 2.0 GiB");
  assert.equal(sentence("PUT /v1/quotas/{user}", '/v1/quotas/lin limit={"streams":9}'), "set the limits of what the head keeps for lin: streams 9");
  assert.equal(sentence("PUT /v1/quotas/{user}", "/v1/quotas/lin limit=default"), "gave lin the limits that all users have");
  assert.equal(sentence("PUT /v1/queues/{queue}", '/v1/queues/lab {"quota":{"GPU":"8","CPU":null},"share":2}'), "changed queue lab: quota GPU 8, CPU without limit; share 2");
  assert.equal(sentence("PUT /v1/queues/{queue}", '/v1/queues/lab {"quota":{"GPU":"8"'), "changed queue lab");
  assert.equal(sentence("DELETE /v1/storage/{path...}", "/v1/storage/runs/a?tree=true"), "removed runs/a and all below it of cluster://");
});

test("an action that is unknown is shown as it was recorded", () => {
  assert.equal(sentence("rtrain head start", "queues=/etc/queues.yaml"), "rtrain head start queues=/etc/queues.yaml");
  assert.equal(sentence("POST /v1/nodes/{node}/drain", "/v1/nodes/%zz/drain"), "drained node %zz");
});

test("a change of a queue sends what differs, and names it", () => {
  const before = { name: "lab", parent: null, share: 1, borrow: true, preempt: true, waiting: 0, running: 0, in_use: {}, quota: { GPU: "8", CPU: "64" }, user_runs: null, user_gpus: null, gpu_hours: null, user_gpu_hours: null, user_gpu_hours_of: {}, budget_window: "30d", budget_preempts: false, budgets: [], recent_use: {} };
  assert.equal(quotaText(before.quota), "GPU=8 CPU=64");
  const { body, words } = changesOf(before, { share: 2, quota: quotaIn("GPU=4, memory=1Ti")!, borrow: true, preempt: false });
  assert.deepEqual(body, { share: 2, quota: { GPU: "4", CPU: null, memory: "1Ti" }, preempt: false });
  assert.deepEqual(words, ["share from 1 to 2", "GPU from 8 to 4", "CPU from 64 to no limit", "memory from no limit to 1Ti", "preempt from yes to no"]);
  assert.equal(changesOf(before, { ...before }).words.length, 0);
  assert.equal(quotaIn("GPU 8"), null);
  assert.deepEqual(quotaIn(""), {});
});

test("every change that the head records has words", async () => {
  const { readFile } = await import("node:fs/promises");
  const described = JSON.parse(await readFile(new URL("../../../../configs/openapi.json", import.meta.url), "utf8")) as { paths: Record<string, Record<string, unknown>> };
  const unsaid = Object.entries(described.paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replace("{path}", "{path...}")}`))
    .filter((action) => !/^(GET|HEAD) /.test(action) && action !== "POST /v1/plan" && sentence(action, "/v1/x/y/z") === `${action} /v1/x/y/z`);
  assert.deepEqual(unsaid, []);
});

// The actions of admins on queues: change the rules of one, make one, remove one.
import { useState } from "preact/hooks";
import { call, Problem } from "../../api/client.ts";
import type { QueueRecord } from "../../api/types.ts";
import { changesOf, quotaIn, quotaText } from "../../data/queue_rules.ts";
import { Dialog } from "../../parts/dialog.tsx";

const fresh: QueueRecord = { name: "", parent: null, share: 1, borrow: true, preempt: true, waiting: 0, running: 0, in_use: {}, quota: {}, user_runs: null, user_gpus: null, gpu_hours: null, user_gpu_hours: null, user_gpu_hours_of: {}, budget_window: "30d", budget_preempts: false, budgets: [], recent_use: {} };

const pathOf = (name: string) => `/v1/queues/${encodeURIComponent(name)}`;

// `queue`: null: a new one is made.
export function QueueRules({ queue, close, done }: { queue: QueueRecord | null; close: () => void; done: () => void }) {
  const before = queue ?? fresh;
  const [name, setName] = useState(before.name);
  const [share, setShare] = useState(String(before.share));
  const [quota, setQuota] = useState(quotaText(before.quota));
  const [borrow, setBorrow] = useState(before.borrow);
  const [preempt, setPreempt] = useState(before.preempt);
  const wanted = quotaIn(quota);
  const changes = wanted === null ? null : changesOf(queue, { share: Number(share), quota: wanted, borrow, preempt });
  const act = async () => {
    if (changes === null) throw new Problem(-1, "The quota is not a list of NAME=AMOUNT, such as GPU=8 CPU=64.");
    await call(pathOf(name), { method: "PUT", body: changes.body });
    done();
  };
  return (
    <Dialog title={queue ? `Change queue ${queue.name}?` : "Make a queue?"} confirm={queue ? "Change the queue" : "Make the queue"} act={act} close={close}>
      {!queue && <label class="field"><span>Name</span><input type="text" required value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} /></label>}
      <label class="field"><span>Share</span><input type="number" required min="1" max="1000000" step="1" value={share} onInput={(event) => setShare(event.currentTarget.value)} /></label>
      <label class="field"><span>Quota</span><input type="text" value={quota} placeholder="no limit; or GPU=8 CPU=64" onInput={(event) => setQuota(event.currentTarget.value)} /></label>
      <label class="check"><input type="checkbox" checked={borrow} onChange={(event) => setBorrow(event.currentTarget.checked)} /> it may borrow what other queues leave free</label>
      <label class="check"><input type="checkbox" checked={preempt} onChange={(event) => setPreempt(event.currentTarget.checked)} /> it may take back what it has lent, and preempt</label>
      <p role="status">{changes === null ? "The quota is not a list of NAME=AMOUNT." : changes.words.length === 0 ? "Nothing changes." : `Changes: ${changes.words.join("; ")}.`}</p>
      <p class="quiet">It is in force at once, also for runs that wait. {queue ? `${queue.running} of its runs are running, ${queue.waiting} wait.` : ""}</p>
    </Dialog>
  );
}

export function RemoveQueue({ queue, close, done }: { queue: QueueRecord; close: () => void; done: () => void }) {
  const act = async () => {
    await call(pathOf(queue.name), { method: "DELETE" });
    done();
  };
  return (
    <Dialog title={`Remove queue ${queue.name}?`} confirm="Remove the queue" danger act={act} close={close}>
      <p>Its share and quota are gone. A queue with live runs cannot be removed.</p>
    </Dialog>
  );
}

// Stops several runs after one question. Names the runs that could not be stopped.
import { useState } from "preact/hooks";
import { call, Problem } from "../../api/client.ts";
import { severally } from "../../api/several.ts";
import type { Run } from "../../api/types.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Words } from "../../parts/words.tsx";
import { plural } from "../../text/units.ts";

const named_most = 12;

export function StopMany({ runs, close, done }: { runs: readonly Run[]; close: () => void; done: () => void }) {
  const [now, setNow] = useState(false);
  const act = async () => {
    const failures: string[] = [];
    await severally(runs, async (run) => {
      try {
        await call(`/v1/runs/${encodeURIComponent(run.run_id)}/stop`, { method: "POST", body: now ? { now: true } : {} });
      } catch (wrong) {
        failures.push(`${run.name}: ${wrong instanceof Problem ? wrong.message : String(wrong)}`);
      }
    });
    done();
    if (failures.length > 0) throw new Problem(-1, `${failures.length} of ${runs.length} could not be stopped. ${failures.slice(0, 3).join(" ")}`);
  };
  return (
    <Dialog title={`Stop ${plural(runs.length, "run")}?`} confirm={`Stop ${plural(runs.length, "run")}`} danger act={act} close={close}>
      <ul class="plain-list">
        {runs.slice(0, named_most).map((run) => <li key={run.run_id}><b><Words text={run.name} /></b>, by {run.user}, {plural(run.workers, "worker")}</li>)}
        {runs.length > named_most && <li class="quiet">and {runs.length - named_most} more</li>}
      </ul>
      <p>They end, and the runs that their workers have submitted with them. Their checkpoints stay.</p>
      <label class="check"><input type="checkbox" checked={now} onChange={(event) => setNow(event.currentTarget.checked)} /> now, without a grace period: a checkpoint that is being stored is given up</label>
    </Dialog>
  );
}

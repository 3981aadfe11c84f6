// The actions of a run's user and admins on a checkpoint: verify its files, restore the run from it. Each explains its
// effect and needs a confirmation.
import { useState } from "preact/hooks";
import { call } from "../../api/client.ts";
import type { Checkpoint, Run, VerifiedFiles } from "../../api/types.ts";
import { Copy } from "../../parts/copy.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { address } from "../../router.ts";
import { shellWord } from "../../text/shell.ts";
import { hasEnded } from "../../text/states.ts";
import { bytes, plural } from "../../text/units.ts";

const verified_within_ms = 3_600_000;

interface Given {
  run: Run;
  checkpoint: Checkpoint;
  close: () => void;
  reload: () => void;
}

const routeOf = (run: Run, verb: string) => `/v1/runs/${encodeURIComponent(run.run_id)}/${verb}`;
const wordOf = (run: Run, checkpoint: Checkpoint) => shellWord(`${run.name}@${checkpoint.directory}`);

// The head answers once it has read all files.
function Verify({ run, checkpoint, close, reload }: Given) {
  const act = async () => {
    await call<VerifiedFiles>(routeOf(run, "checkpoints/verify"), { method: "POST", body: { checkpoint: checkpoint.directory }, limit_ms: verified_within_ms });
    reload();
  };
  return (
    <Dialog title={`Verify ${checkpoint.directory}?`} confirm="Verify its files" act={act} close={close}>
      <p>The head reads {bytes(checkpoint.bytes)} and compares each file with its hash from the commit. The list shows the result. Files that the head cannot read are verified on a machine that can:</p>
      <Copy text={`rtrain checkpoints verify ${wordOf(run, checkpoint)}`} />
    </Dialog>
  );
}

function Restore({ run, checkpoint, close }: Given) {
  const act = async () => {
    const next = await call<Run>(routeOf(run, "restore"), { method: "POST", body: { checkpoint: checkpoint.directory } });
    location.hash = address(["runs", next.run_id]);
  };
  return (
    <Dialog title={`Go on from ${checkpoint.directory}?`} confirm="Restore the run" act={act} close={close}>
      <p>{run.name} is submitted again with its job and its code, and {plural(run.workers, "worker")} start from this checkpoint. It keeps its directory; checkpoints behind this one do not count any more. A changed job, or one with secrets, is restored by:</p>
      <Copy text={`rtrain restore ${wordOf(run, checkpoint)}`} />
    </Dialog>
  );
}

const dialogs = { verify: Verify, restore: Restore };

export function CheckpointActions({ run, checkpoint, reload }: Omit<Given, "close">) {
  const [asked, setAsked] = useState<keyof typeof dialogs | null>(null);
  const Asked = asked && dialogs[asked];
  return (
    <span class="tools">
      <button type="button" class="small" aria-label={`Verify ${checkpoint.directory}`} onClick={() => setAsked("verify")}>Verify</button>
      {hasEnded(run.state) && <button type="button" class="small" aria-label={`Restore ${checkpoint.directory}`} onClick={() => setAsked("restore")}>Restore</button>}
      {Asked && <Asked run={run} checkpoint={checkpoint} reload={reload} close={() => setAsked(null)} />}
    </span>
  );
}

// A backup of the whole head, written on the head's machine.
import { useState } from "preact/hooks";
import { call } from "../../api/client.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { bytes } from "../../text/units.ts";

const written_within_ms = 600_000;

// The head answers once the backup is written, which may take longer than other answers.
export function BackUp() {
  const [asked, setAsked] = useState(false);
  const [done, setDone] = useState("");
  const [file, setFile] = useState("/var/backups/rtrain/head");
  const [passphrase, setPassphrase] = useState("");
  const [logs, setLogs] = useState(true);
  const act = async () => {
    const answer = await call<{ file: string; bytes: number }>("/v1/head/backup", { method: "POST", body: { file, passphrase, logs }, limit_ms: written_within_ms });
    setDone(`Written: ${answer.file}, ${bytes(answer.bytes)}.`);
    setPassphrase("");
  };
  return (
    <>
      <button type="button" class="small" onClick={() => setAsked(true)}>Back up</button>
      {done && <span role="status" class="quiet">{done}</span>}
      {asked && (
        <Dialog title="Back up the head?" confirm="Write the backup" act={act} close={() => setAsked(false)}>
          <p>Database, keys, secrets, tokens and code archives are sealed by the passphrase and written on the head's machine. The head works on. Without the passphrase nobody can restore it.</p>
          <label class="field"><span>File on the head's machine</span><input type="text" required pattern="/.+" value={file} onInput={(event) => setFile(event.currentTarget.value)} /></label>
          <label class="field"><span>Passphrase</span><input type="password" required minLength={8} autocomplete="new-password" value={passphrase} onInput={(event) => setPassphrase(event.currentTarget.value)} /></label>
          <label class="check"><input type="checkbox" checked={logs} onChange={(event) => setLogs(event.currentTarget.checked)} /> with the logs of runs</label>
        </Dialog>
      )}
    </>
  );
}

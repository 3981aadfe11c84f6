// The head's own health and the room on its disks.
import { useNow, useSession } from "../../api/hooks.ts";
import type { DiskRoom, Status } from "../../api/types.ts";
import { isAdmin } from "../../data/rights.ts";
import { Bar } from "../../parts/bar.tsx";
import { Fact, Panel } from "../../parts/panel.tsx";
import { exact, moment } from "../../text/time.ts";
import { bytes, bytesOf, duration } from "../../text/units.ts";
import { BackUp } from "./backup.tsx";

const nearly_full = 0.9;
const slow_task_s = 1;  // for so long the head answered nothing

function Room({ disk }: { disk: DiskRoom | null }) {
  if (!disk || disk.size === 0) return <>unknown</>;
  const used = disk.size - disk.free;
  const ratio = used / disk.size;
  return <Bar ratio={ratio} text={`${bytesOf(used, disk.size)} used, ${bytes(disk.free)} free`} tone={ratio > nearly_full ? "bad" : ""} />;
}

export function Health({ status }: { status: Status }) {
  const now = useNow(10_000);
  const session = useSession();
  const health = status.health;
  const started = moment(status.started);
  const slow = health?.longest_task_seconds ?? null;
  return (
    <Panel title="Head and storage" aside={isAdmin(session) && <BackUp />}>
      <dl class="facts">
        <Fact name="Version">{status.version}</Fact>
        <Fact name="Up since">{exact(status.started)}{started !== null && `, ${duration(now - started)}`}</Fact>
        {health?.memory_bytes != null && <Fact name="Memory">{bytes(health.memory_bytes)}</Fact>}
        {slow !== null && <Fact name="Longest pause in 2 min">{slow >= slow_task_s ? <span class="bad-text">{duration(slow * 1000)}</span> : duration(slow * 1000)}</Fact>}
        {status.storage_root !== undefined && <Fact name="Storage root">{status.storage_root}</Fact>}
        {health && <Fact name="Disk of the storage root"><Room disk={health.storage_disk} /></Fact>}
        {health && <Fact name="Disk of the data directory"><Room disk={health.data_disk} /></Fact>}
      </dl>
    </Panel>
  );
}

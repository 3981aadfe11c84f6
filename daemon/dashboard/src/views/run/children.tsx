// The runs that the workers of a driver have submitted.
import { list } from "../../api/client.ts";
import { useLoaded, useNow } from "../../api/hooks.ts";
import type { Run } from "../../api/types.ts";
import { Panel } from "../../parts/panel.tsx";
import { Table } from "../../parts/table.tsx";
import { Words } from "../../parts/words.tsx";
import { parentOf, remoteKind, rowsOf } from "../../data/run_rows.ts";
import { address } from "../../router.ts";
import { hasEnded } from "../../text/states.ts";
import { plural } from "../../text/units.ts";
import { columnsFor } from "../runs/columns.tsx";

const shown = ["state", "reason", "attempts", "reports", "took"];

export function Children({ run }: { run: Run }) {
  const now = useNow(5_000);
  // A head that does not know `parent` answers with all runs.
  const read = useLoaded(async (signal) => (await list<Run>(`/v1/runs?all=true&parent=${encodeURIComponent(run.run_id)}`, signal)).filter((child) => parentOf(child) === run.run_id),
    [run.run_id], hasEnded(run.state) ? 0 : 10_000);
  if (!read.value || read.value.length === 0) return null;
  return (
    <Panel title="Runs that it has submitted" wide aside={<span class="quiet">{plural(read.value.length, "run")}</span>}>
      <Table label="Runs that it has submitted" items={rowsOf(read.value, "none")} keyOf={(row) => row.key} empty="none"
        columns={[
          { name: "Run", width: 2, sort: (row) => row.name, cell: (row) => <><a href={address(["runs", row.key])}><Words text={row.name} /></a>{remoteKind(row.run!) && <span class="tag">{remoteKind(row.run!)}</span>}</> },
          ...columnsFor(shown, now, ""),
        ]}
      />
    </Panel>
  );
}

// The submitted spec, as the head stores it.
import { Panel, Quiet } from "../../parts/panel.tsx";
import { Table } from "../../parts/table.tsx";
import { Words } from "../../parts/words.tsx";
import { flat } from "../../data/differences.ts";
import type { Shown } from "./shown.ts";

export function Spec({ run }: Shown) {
  const fields = [...flat(run.job ?? {})];
  return (
    <Panel title="Spec" wide>
      {run.job ? (
        <Table label="Spec" items={fields} keyOf={([field]) => field} empty="The spec is empty."
          columns={[
            { name: "Field", cell: ([field]) => <code><Words text={field} /></code>, sort: ([field]) => field },
            { name: "Value", cell: ([, value]) => <span class="value"><Words text={value} /></span>, width: 2 },
          ]}
        />
      ) : (
        <Quiet>The head does not tell it.</Quiet>
      )}
    </Panel>
  );
}

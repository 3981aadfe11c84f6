// Tables: a plain one for a page of rows, and one that draws only the visible ones of thousands of rows.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Virtual } from "./virtual.tsx";

export interface Column<T> {
  name: string;
  cell: (item: T) => ComponentChildren;
  sort?: (item: T) => number | string;
  number?: boolean;  // aligned to the right
  width?: number;  // in a large table: parts of the whole width
}

const rows_plain = 200;
const row_height = 32;

export function Table<T>({ columns, items, keyOf, label, empty, height = 420 }: {
  columns: Column<T>[];
  items: readonly T[];
  keyOf: (item: T) => string | number;
  label: string;
  empty: string;
  height?: number;
}) {
  const [order, setOrder] = useState<{ column: number; down: boolean } | null>(null);
  if (items.length === 0) return <p class="quiet">{empty}</p>;
  const by = order === null ? undefined : columns[order.column]?.sort;
  const sorted = by ? [...items].sort((a, b) => compared(by(a), by(b)) * (order!.down ? -1 : 1)) : items;
  const head = (column: Column<T>, at: number) =>
    column.sort ? (
      <button type="button" class="sort"
        onClick={() => setOrder(order?.column === at ? (order.down ? null : { column: at, down: true }) : { column: at, down: false })}>
        {column.name}
        <span aria-hidden="true">{order?.column === at ? (order.down ? " ▼" : " ▲") : ""}</span>
      </button>
    ) : (
      column.name
    );
  const sortWord = (at: number) => (order?.column === at ? (order.down ? "descending" : "ascending") : undefined);
  if (items.length > rows_plain) {
    const least = `${Math.max(46, columns.length * 5)}rem`;
    const template = columns.map((one) => `minmax(0, ${one.width ?? 1}fr)`).join(" ");
    return (
      <Virtual count={sorted.length} rowHeight={row_height} height={height} label={label} role="table"
        header={
          <div class="large-head" role="rowgroup">
            <div role="row" class="large-row" style={{ gridTemplateColumns: template, minWidth: least }}>
              {columns.map((one, at) => <div key={one.name} role="columnheader" aria-sort={sortWord(at)} class={one.number ? "number" : ""}>{head(one, at)}</div>)}
            </div>
          </div>
        }
        row={(at) => (
          <div class="large-row" role="presentation" style={{ gridTemplateColumns: template, minWidth: least }}>
            {columns.map((one) => <div key={one.name} role="cell" class={one.number ? "number" : ""}>{one.cell(sorted[at]!)}</div>)}
          </div>
        )}
      />
    );
  }
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label={label}>
      <table aria-rowcount={items.length + 1}>
        <thead>
          <tr>{columns.map((one, at) => <th key={one.name} scope="col" aria-sort={sortWord(at)} class={one.number ? "number" : ""}>{head(one, at)}</th>)}</tr>
        </thead>
        <tbody>
          {sorted.map((item) => (
            <tr key={keyOf(item)}>{columns.map((one) => <td key={one.name} data-name={one.name} class={one.number ? "number" : ""}>{one.cell(item)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function compared(a: number | string, b: number | string): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

// Tables: a plain one for a page of rows, and one that draws only the visible ones of thousands of rows. On a
// telephone's screen each row is a card.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Virtual } from "./virtual.tsx";
import { useNarrow } from "./width.ts";
import { worded } from "./words.tsx";

export interface Column<T> {
  name: string;
  cell: (item: T) => ComponentChildren;
  sort?: (item: T) => number | string;
  number?: boolean;  // aligned to the right
  width?: number;  // in a large table: parts of the whole width
}

interface Order {
  column: number;
  down: boolean;
}

const rows_plain = 200;
const row_height = 32;
const card_line = 26;  // height in px of a line of a card in a large table

export function Table<T>({ columns, items, keyOf, label, empty, below, height = 420 }: {
  columns: Column<T>[];
  items: readonly T[];
  keyOf: (item: T) => string | number;
  label: string;
  empty: string;
  below?: (item: T) => readonly T[];  // the visible items of a tree below this one
  height?: number;
}) {
  const [order, setOrder] = useState<Order | null>(null);
  const narrow = useNarrow();
  if (items.length === 0) return <p class="quiet">{empty}</p>;
  const by = order === null ? undefined : columns[order.column]?.sort;
  const inOrder = (some: readonly T[]): readonly T[] => (by ? [...some].sort((a, b) => compared(by(a), by(b)) * (order!.down ? -1 : 1)) : some);
  const flat = (some: readonly T[]): readonly T[] => inOrder(some).flatMap((item) => [item, ...flat(below!(item))]);
  const sorted = below ? flat(items) : inOrder(items);
  const given = { columns, sorted, label, order, setOrder, narrow };
  return (
    <>
      {narrow && <SortChoice {...given} />}
      {sorted.length > rows_plain ? <Large {...given} height={height} /> : <Plain {...given} keyOf={keyOf} />}
    </>
  );
}

interface Given<T> {
  columns: Column<T>[];
  sorted: readonly T[];
  label: string;
  order: Order | null;
  setOrder: (order: Order | null) => void;
  narrow: boolean;
}

// Cards have no headers to press.
function SortChoice<T>({ columns, label, order, setOrder }: Given<T>) {
  const choices = columns.flatMap((choice, column) => (choice.sort ? [{ name: choice.name, column }] : []));
  if (choices.length === 0) return null;
  const choose = (value: string) => setOrder(value === "" ? null : { column: Math.abs(Number(value)) - 1, down: value.startsWith("-") });
  return (
    <label class="field"><span>Sort</span>
      <select aria-label={`Sort ${label}`} value={order ? `${order.down ? "-" : ""}${order.column + 1}` : ""} onChange={(event) => choose(event.currentTarget.value)}>
        <option value="">as it is</option>
        {choices.flatMap(({ name, column }) => [
          <option key={column} value={String(column + 1)}>{name}, least first</option>,
          <option key={-column - 1} value={`-${column + 1}`}>{name}, greatest first</option>,
        ])}
      </select></label>
  );
}

function Head<T>({ column, at, order, setOrder }: Pick<Given<T>, "order" | "setOrder"> & { column: Column<T>; at: number }) {
  if (!column.sort) return <>{column.name}</>;
  const own_order = order?.column === at ? order : null;
  return (
    <button type="button" class="sort" onClick={() => setOrder(own_order ? (own_order.down ? null : { column: at, down: true }) : { column: at, down: false })}>
      {column.name}
      <span aria-hidden="true">{own_order ? (own_order.down ? " ▼" : " ▲") : ""}</span>
    </button>
  );
}

const sortWord = (order: Order | null, at: number) => (order?.column === at ? (order.down ? "descending" : "ascending") : undefined);

function Large<T>({ columns, sorted, label, order, setOrder, narrow, height }: Given<T> & { height: number }) {
  const style = narrow ? {} : { gridTemplateColumns: columns.map((column) => `minmax(0, ${column.width ?? 1}fr)`).join(" "), minWidth: `${Math.max(46, columns.length * 5)}rem` };
  const row = narrow ? "large-row stacked" : "large-row";
  return (
    <Virtual count={sorted.length} rowHeight={narrow ? columns.length * card_line + 18 : row_height} height={height} label={label} role="table"
      header={
        <div class={narrow ? "visually-hidden" : "large-head"} role="rowgroup">
          <div role="row" class="large-row" style={style}>
            {columns.map((column, at) => <div key={column.name} role="columnheader" aria-sort={sortWord(order, at)} class={column.number ? "number" : ""}>{narrow ? column.name : <Head column={column} {...{ at, order, setOrder }} />}</div>)}
          </div>
        </div>
      }
      row={(at) => (
        <div class={row} role="presentation" style={style}>
          {columns.map((column) => <div key={column.name} role="cell" data-name={column.name} class={column.number ? "number" : ""}>{column.cell(sorted[at]!)}</div>)}
        </div>
      )}
    />
  );
}

// The roles are written out, because the style of a card takes them from the elements.
function Plain<T>({ columns, sorted, label, order, setOrder, narrow, keyOf }: Given<T> & { keyOf: (item: T) => string | number }) {
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label={label}>
      <table role="table" class={narrow ? "stacked" : ""} aria-rowcount={sorted.length + 1}>
        <thead role="rowgroup" class={narrow ? "visually-hidden" : ""}>
          <tr role="row">{columns.map((column, at) => <th key={column.name} role="columnheader" scope="col" aria-sort={sortWord(order, at)} class={column.number ? "number" : ""}>{narrow ? column.name : <Head column={column} {...{ at, order, setOrder }} />}</th>)}</tr>
        </thead>
        <tbody role="rowgroup">
          {sorted.map((item) => (
            <tr key={keyOf(item)} role="row">{columns.map((column) => <td key={column.name} role="cell" data-name={column.name} class={column.number ? "number" : ""}>{worded(column.cell(item))}</td>)}</tr>
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

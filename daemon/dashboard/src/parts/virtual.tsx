// A list of rows of equal height. Only the visible rows are in the document, so 50,000 scroll like 50.
import type { ComponentChildren } from "preact";
import { useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Ref } from "preact";

const beyond = 12;  // rows above and below the visible ones

export interface Scroller {
  to: (row: number) => void;
  toEnd: () => void;
}

export function Virtual({ count, rowHeight, height, row, label, stick, handle, header, role }: {
  count: number;
  rowHeight: number;
  height: number;
  row: (at: number) => ComponentChildren;
  label: string;
  stick?: boolean;  // true: stays at the end while rows arrive
  handle?: Ref<Scroller>;
  header?: ComponentChildren;
  role?: "table" | "log";
}) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const atEnd = useRef(true);
  useImperativeHandle(handle ?? { current: null }, () => ({
    to: (at) => {
      atEnd.current = false;
      if (box.current) box.current.scrollTop = Math.max(0, at * rowHeight - height / 3);
    },
    toEnd: () => {
      atEnd.current = true;
      if (box.current) box.current.scrollTop = box.current.scrollHeight;
    },
  }), [rowHeight, height]);
  useLayoutEffect(() => {
    if (!stick || !atEnd.current || !box.current) return;
    box.current.scrollTop = box.current.scrollHeight;
    setTop(box.current.scrollTop);  // At the first time the scroll listener is not attached yet.
  }, [count, stick]);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    let asked = false;
    const scrolled = () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        atEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - rowHeight;
        setTop(element.scrollTop);
      });
    };
    element.addEventListener("scroll", scrolled, { passive: true });
    return () => element.removeEventListener("scroll", scrolled);
  }, [rowHeight]);
  const first = Math.max(0, Math.floor(top / rowHeight) - beyond);
  const last = Math.min(count, Math.ceil((top + height) / rowHeight) + beyond);
  const rows: ComponentChildren[] = [];
  for (let at = first; at < last; at += 1)
    rows.push(
      <div class="virtual-row" key={at} role={role === "table" ? "row" : undefined} aria-rowindex={role === "table" ? at + 2 : undefined}
        style={{ transform: `translateY(${at * rowHeight}px)`, height: `${rowHeight}px` }}>
        {row(at)}
      </div>,
    );
  return (
    <div class="virtual" ref={box} tabIndex={0} role={role ?? "region"} aria-label={label}
      aria-rowcount={role === "table" ? count + 1 : undefined} style={{ height: `${height}px` }}>
      {header}
      <div class="virtual-space" role={role === "table" ? "rowgroup" : undefined} style={{ height: `${count * rowHeight}px` }}>{rows}</div>
    </div>
  );
}

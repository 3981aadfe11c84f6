// The width of an element, and whether the screen is a telephone's.
import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

// Returns the width of an element and follows its changes.
export function useWidth(of: RefObject<HTMLElement | null>): number {
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    const element = of.current;
    if (!element) return;
    const measure = () => set(Math.floor(element.clientWidth));
    measure();
    const watching = new ResizeObserver(measure);
    watching.observe(element);
    return () => watching.disconnect();
  }, []);
  return width;
}

const telephone = matchMedia("(max-width: 640px)");

export function useNarrow(): boolean {
  const [narrow, set] = useState(telephone.matches);
  useLayoutEffect(() => {
    const changed = () => set(telephone.matches);
    changed();
    telephone.addEventListener("change", changed);
    return () => telephone.removeEventListener("change", changed);
  }, []);
  return narrow;
}

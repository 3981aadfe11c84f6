// The address of each view is behind the #, so that the head serves one page and a link can be shared.
import { useLayoutEffect, useState } from "preact/hooks";

export interface Route {
  path: string[]; // decoded: ["runs", "run-7", "logs"]
  query: URLSearchParams;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function parse(hash: string): Route {
  const plain = hash.replace(/^#\/?/, "");
  const mark = plain.indexOf("?");
  const path = mark < 0 ? plain : plain.slice(0, mark);
  return {
    path: path.split("/").filter((part) => part !== "").map(decoded),
    query: new URLSearchParams(mark < 0 ? "" : plain.slice(mark + 1)),
  };
}

export function address(path: readonly string[], query: Record<string, string> = {}): string {
  const set = Object.entries(query).filter(([, value]) => value !== "");
  const text = set.length === 0 ? "" : `?${new URLSearchParams(set).toString()}`;
  return `#/${path.map(encodeURIComponent).join("/")}${text}`;
}

export function useRoute(): Route {
  const [route, set] = useState(() => parse(location.hash));
  // Runs before the browser paints, so that no key press in a new field is lost.
  useLayoutEffect(() => {
    const changed = () => set(parse(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

// Changes the query of the present view without a new history entry.
export function setQuery(changes: Record<string, string>): void {
  const { path, query } = parse(location.hash);
  const merged = { ...Object.fromEntries(query), ...changes };
  history.replaceState(null, "", address(path, merged));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

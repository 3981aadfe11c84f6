// The frame of every view: navigation, the connection to the head, the signed-in user.
import { Component, type ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { addressToShare, Problem, readSession, signOut } from "./api/client.ts";
import { useHeadAnswers, useSession } from "./api/hooks.ts";
import { themeChanged } from "./parts/colours.ts";
import { Icon } from "./parts/icon.tsx";
import { Quiet } from "./parts/panel.tsx";
import { type Route, useRoute } from "./router.ts";
import { Access } from "./views/access.tsx";
import { Cluster } from "./views/cluster/cluster.tsx";
import { NodeView } from "./views/cluster/node.tsx";
import { Compare } from "./views/compare.tsx";
import { RunView } from "./views/run/run.tsx";
import { Runs } from "./views/runs/runs.tsx";
import { SignIn } from "./views/sign_in.tsx";

function View({ route }: { route: Route }) {
  const [first, second, third] = route.path;
  switch (first) {
    case undefined:
      return <Cluster />;
    case "nodes":
      return second === undefined ? <Cluster /> : <NodeView key={second} name={second} />;
    case "runs":
      return second === undefined ? <Runs /> : <RunView key={second} name={second} part={third ?? "overview"} />;
    case "compare":
      return <Compare />;
    case "access":
      return <Access />;
    default:
      return <div class="view"><h1>Not found</h1><Quiet>There is no such view. <a href="#/">Cluster</a></Quiet></div>;
  }
}

// An error in one view does not affect the frame, so that another view can be chosen.
class Guard extends Component<{ of: string; children: ComponentChildren }, { wrong: string }> {
  override state = { wrong: "" };
  override componentDidCatch(wrong: unknown) {
    console.error(wrong);
    this.setState({ wrong: String(wrong) });
  }
  override componentDidUpdate(before: { of: string }) {
    if (before.of !== this.props.of && this.state.wrong !== "") this.setState({ wrong: "" });
  }
  override render() {
    if (this.state.wrong === "") return this.props.children;
    return <div class="view"><div class="note bad" role="alert">This view failed: {this.state.wrong}</div></div>;
  }
}

function storedTheme(): string {
  try {
    return localStorage.getItem("theme") ?? "";
  } catch {
    return "";
  }
}

export function applyTheme(theme: string): void {
  if (theme === "light" || theme === "dark") document.documentElement.dataset["theme"] = theme;
  else delete document.documentElement.dataset["theme"];
  themeChanged();
}

function ThemeButton() {
  const isDark = () => {
    const set = document.documentElement.dataset["theme"];
    return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const [dark, setDark] = useState(isDark());
  const change = () => {
    const next = isDark() ? "light" : "dark";
    applyTheme(next);
    setDark(next === "dark");
    try {
      localStorage.setItem("theme", next);
    } catch {
      // The choice lasts until the page is closed.
    }
  };
  return <button type="button" class="plain" aria-label={dark ? "Light colours" : "Dark colours"} onClick={change}><Icon name={dark ? "sun" : "moon"} /></button>;
}

// Copies the address under which other people can open this view: the head's own, which requires sign-in.
function ShareButton() {
  const [done, setDone] = useState("");
  const share = async () => {
    const address = addressToShare();
    try {
      await navigator.clipboard.writeText(address);
      setDone("Address copied");
    } catch {
      setDone(address);
    }
    setTimeout(() => setDone(""), 4_000);
  };
  return (
    <>
      <span role="status" class="quiet shared">{done}</span>
      <button type="button" class="plain" aria-label="Copy the address of this view" title="Copy the address of this view" onClick={() => void share()}><Icon name="copy" /></button>
    </>
  );
}

const places = [
  { path: "", word: "Cluster", at: ["", "nodes"] },
  { path: "runs", word: "Runs", at: ["runs"] },
  { path: "compare", word: "Compare", at: ["compare"] },
  { path: "access", word: "Access", at: ["access"], admin: true },
];

export function App() {
  const route = useRoute();
  const session = useSession();
  const answers = useHeadAnswers();
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const begin = () => {
      readSession().then(
        () => setProblem(""),
        (wrong: unknown) => {
          setProblem(wrong instanceof Problem ? wrong.message : String(wrong));
          timer = setTimeout(begin, 2_000);
        },
      );
    };
    begin();
    return () => clearTimeout(timer);
  }, []);
  const view = route.path.join("/");
  useEffect(() => {
    if (route.path[0] !== "runs") document.title = "rtrain";
    scrollTo(0, 0);
  }, [view]);
  // Moves the focus to the begin of the new view if the element that had it is gone, so that keyboard users continue
  // there.
  useEffect(() => {
    if (session && document.activeElement === document.body) document.getElementById("main")?.focus({ preventScroll: true });
  }, [view, Boolean(session)]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>To the content</a>
      <header class="bar">
        <a class="brand" href="#/">rtrain</a>
        {session && (
          <nav aria-label="Views">
            {places.filter((place) => !place.admin || session.role === "admin").map((place) => (
              <a key={place.path} href={`#/${place.path}`} aria-current={place.at.includes(route.path[0] ?? "") ? "page" : undefined}>{place.word}</a>
            ))}
          </nav>
        )}
        <span class="bar-end">
          {session && <span role="status" class={answers ? "live good-text" : "live bad-text"}><Icon name={answers ? "play" : "away"} />{answers ? "Live" : "Head away, retrying"}</span>}
          {session && <ShareButton />}
          <ThemeButton />
          {session && <span class="who" title={`role ${session.role}`}>{session.user || session.role}</span>}
          {session && <button type="button" class="small" onClick={() => void signOut().catch(() => {})}>Sign out</button>}
        </span>
      </header>
      <main id="main" class="main" tabIndex={-1}>
        {session === undefined && (problem ? <div class="note bad" role="alert">{problem} Retrying.</div> : <Quiet>Loading.</Quiet>)}
        {session === null && <SignIn />}
        {session && <Guard of={location.hash}><View route={route} /></Guard>}
      </main>
    </>
  );
}

applyTheme(storedTheme());

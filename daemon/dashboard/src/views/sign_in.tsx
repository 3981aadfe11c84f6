// Sign-in by token. The token is sent to the head once and not stored. The head returns a cookie that scripts cannot
// read.
import { useState } from "preact/hooks";
import { Problem, sessionEnded, signIn } from "../api/client.ts";
import { ProblemNote } from "../parts/panel.tsx";

export function SignIn() {
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await signIn(token.trim());
    } catch (wrong) {
      setProblem(wrong instanceof Problem ? wrong : new Problem(-1, String(wrong)));
    } finally {
      setBusy(false);
    }
  };
  return (
    <div class="sign-in">
      <form class="panel" onSubmit={(event) => void submit(event)}>
        <h1>Sign in</h1>
        {sessionEnded() && <p class="note wait" role="status">Your session has ended. Sign in again; the address stays.</p>}
        <label class="field column"><span>Token</span>
          <input type="password" name="token" autocomplete="current-password" required autofocus value={token} onInput={(event) => setToken(event.currentTarget.value)} /></label>
        {problem && <ProblemNote problem={problem} />}
        <button type="submit" class="primary" disabled={busy}>Sign in</button>
        <p class="quiet">An admin makes tokens: <code>rtrain token create --role user --user NAME</code>. Your own is in ~/.config/rtrain/config.yaml.</p>
      </form>
    </div>
  );
}

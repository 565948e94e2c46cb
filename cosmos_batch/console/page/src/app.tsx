import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Spinner from "@cloudscape-design/components/spinner";
import { useEffect, useRef, useState } from "react";
import { Grid, type View } from "./grid";
import { ItemPage } from "./item";
import { signIn, type Source } from "./source";
import type { State } from "./types";

const POLL = 500; // milliseconds, while documents are read

export function App({ source }: { source: Source }) {
  const { state, error } = useConsoleState(source);
  const item = useItemOfUrl();
  const [view, setView] = useState<View>({
    query: { search: "", status: "", errorCode: "", model: "", label: "", sort: "newest" },
    offset: 0,
  });
  useEffect(() => {
    document.title = state ? `${state.title} · Cosmos Batch` : "Cosmos Batch";
  }, [state]);
  return (
    <>
      <header className="top">
        <h1>
          <a href="#/">Cosmos Batch</a>
          {state && <span className="opened">{state.title}</span>}
        </h1>
        <ModeButton />
      </header>
      <main>
        {error && <Alert type="error">{error}</Alert>}
        {!state && !error && (
          <Box textAlign="center" padding="xxl">
            <Spinner size="large" />
          </Box>
        )}
        {state && item === null && <Grid source={source} state={state} view={view} setView={setView} />}
        {state && item !== null && <ItemPage key={item} source={source} id={item} />}
      </main>
    </>
  );
}

// Asks for the state until everything is read.
function useConsoleState(source: Source): { state: State | null; error: string | null } {
  const [state, setState] = useState<State | null>(null);
  const [error, setError] = useState<string | null>(null);
  const signedIn = useRef<Promise<void>>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let ended = false;
    const poll = async () => {
      try {
        signedIn.current ??= signIn();
        await signedIn.current;
        const found = await source.state();
        if (ended) return;
        setState(found);
        setError(found.problem);
        if (!found.done) timer = setTimeout(poll, POLL);
      } catch (caught) {
        if (!ended) setError(caught instanceof Error ? caught.message : String(caught));
      }
    };
    void poll();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [source]);
  return { state, error };
}

function useItemOfUrl(): number | null {
  const read = () => Number(/^#\/item\/(\d+)$/.exec(location.hash)?.[1] ?? Number.NaN);
  const [item, setItem] = useState(read);
  useEffect(() => {
    const follow = () => setItem(read());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return Number.isNaN(item) ? null : item;
}

function ModeButton() {
  const [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    document.body.classList.toggle("awsui-dark-mode", dark);
  }, [dark]);
  return <Button onClick={() => setDark(!dark)}>{dark ? "Light mode" : "Dark mode"}</Button>;
}

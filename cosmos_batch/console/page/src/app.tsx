import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Spinner from "@cloudscape-design/components/spinner";
import { type ReactNode, useEffect, useState } from "react";
import { ask, signIn, usePolled } from "./api";
import { CollectionPage } from "./collection_page";
import { ComparePage } from "./compare_page";
import { NewPage } from "./new_page";
import { IsLocal } from "./prices";
import { RunPage } from "./run_page";
import { RunsPage } from "./runs_page";
import { type Source, viewOf } from "./source";
import type { Home } from "./types";

const FOLDER = "folder";

// The page of a console that runs.
export function App() {
  const home = usePolled<Home>(
    "home",
    () => signedIn().then(() => ask("/api/home")),
    () => null,
  );
  const [title, setTitle] = useState("");
  if (!home.value) return <Frame title="">{home.error ? <Alert type="error">{home.error}</Alert> : <Waiting />}</Frame>;
  return (
    <Frame title={title} hasRuns={home.value.hasRuns}>
      <IsLocal value={home.value.isLocal}>
        <Page home={home.value} setTitle={setTitle} />
      </IsLocal>
    </Frame>
  );
}

// The page of an export.
export function ExportedApp({ source }: { source: Source }) {
  const [title, setTitle] = useState("");
  const [, item] = usePlace();
  return (
    <Frame title={title}>
      <CollectionPage source={source} base="#" item={item === undefined ? null : Number(item)} onTitle={setTitle} />
    </Frame>
  );
}

let signingIn: Promise<void> | null = null;
const signedIn = () => (signingIn ??= signIn());

// What the hash of the URL names: #/runs/RUN/item/3, or #/item/3 of a folder.
function Page({ home, setTitle }: { home: Home; setTitle: (title: string) => void }) {
  const [area, name, ...rest] = usePlace();
  if (!home.hasRuns) {
    const item = area === "item" ? Number(name) : null;
    return <CollectionPage key={FOLDER} source={FOLDER_SOURCE} base="#" item={item} onTitle={setTitle} />;
  }
  if (area === "runs" && name) return <RunPage key={name} run={name} place={rest} onTitle={setTitle} />;
  if (!area && home.view) return <RunPage key={home.view} run={home.view} place={[]} onTitle={setTitle} />;
  if (area === "compare" && name) return <ComparePage key={name} first={name} second={rest[0] ?? ""} onTitle={setTitle} />;
  if (area === "new") return <NewPage key={location.hash} onTitle={setTitle} />;
  return <RunsPage onTitle={setTitle} />;
}

const FOLDER_SOURCE = viewOf(FOLDER);

interface FrameProps {
  title: string;
  hasRuns?: boolean;
  children: ReactNode;
}

function Frame({ title, hasRuns = false, children }: FrameProps) {
  useEffect(() => {
    document.title = title ? `${title} · Cosmos Batch` : "Cosmos Batch";
  }, [title]);
  return (
    <>
      <header className="top">
        <h1>
          <a href="#/">Cosmos Batch</a>
          {title && <span className="opened">{title}</span>}
        </h1>
        {hasRuns && (
          <nav aria-label="Pages" className="pages">
            <a href="#/runs">Runs</a>
            <a href="#/new">New run</a>
          </nav>
        )}
        <ModeButton />
      </header>
      <main>{children}</main>
    </>
  );
}

export function Waiting() {
  return (
    <Box textAlign="center" padding="xxl">
      <Spinner size="large" />
    </Box>
  );
}

// The parts of the URL's hash.
function usePlace(): string[] {
  const read = () => location.hash.replace(/^#\/?|\?.*$/g, "").split("/").filter(Boolean).map(decoded);
  const [place, setPlace] = useState(read);
  useEffect(() => {
    const follow = () => setPlace(read());
    follow();
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return location.hash.startsWith("#token=") ? [] : place;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a person has typed it
  }
}

function ModeButton() {
  const [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    document.body.classList.toggle("awsui-dark-mode", dark);
  }, [dark]);
  return <Button onClick={() => setDark(!dark)}>{dark ? "Light mode" : "Dark mode"}</Button>;
}

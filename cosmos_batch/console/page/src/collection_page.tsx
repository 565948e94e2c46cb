import Alert from "@cloudscape-design/components/alert";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { type Polled, usePolled } from "./api";
import { Waiting } from "./app";
import { Grid } from "./grid";
import { ItemPage } from "./item";
import { IsLocal } from "./prices";
import { type Marked, NOTHING } from "./selection";
import type { Source } from "./source";
import { type ChosenDocuments, EVERYTHING, type Query, type State } from "./types";

const READING = 500; // milliseconds between two looks, while documents are read
const GROWING = 2000; // and while more of them may come

// The state of a view, asked for again as long as it may change.
export function useViewState(source: Source, base: string): Polled<State> {
  return usePolled(
    base,
    () => source.state(),
    (latest) => (latest.done ? (latest.grows ? GROWING : null) : READING),
  );
}

interface CollectionPageProps {
  source: Source;
  // The hash of the collection, below which its items have theirs.
  base: string;
  // The number of the item that is open, or null.
  item: number | null;
  onTitle?: (title: string) => void;
  // What stands above the grid.
  above?: (state: State) => ReactNode;
  onRetry?: ((selection: ChosenDocuments) => Promise<void>) | undefined;
}

// The documents of a collection, or one of them.
export function CollectionPage({ source, base, item, onTitle, above, onRetry }: CollectionPageProps) {
  const { value: state, error } = useViewState(source, base);
  // What the person chose is kept while an item is open.
  const [query, setQuery] = useState<Query>(EVERYTHING);
  const [marked, setMarked] = useState<Marked>(NOTHING);
  const offsetRef = useRef(0);
  const title = state?.title;
  useEffect(() => {
    if (title !== undefined) onTitle?.(title);
  }, [title, onTitle]);
  const problem = error ?? state?.problem;
  return (
    <IsLocal value={state?.isLocal ?? false}>
      {problem && <Alert type="error">{problem}</Alert>}
      {!state && !error && <Waiting />}
      {state && item === null && above?.(state)}
      {state && item === null && (
        <Grid
          source={source}
          base={base}
          state={state}
          query={query}
          setQuery={setQuery}
          marked={marked}
          setMarked={setMarked}
          offsetRef={offsetRef}
          onRetry={onRetry}
        />
      )}
      {state && item !== null && <ItemPage key={item} source={source} base={base} id={item} />}
    </IsLocal>
  );
}

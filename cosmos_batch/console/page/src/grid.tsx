import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { type Dispatch, type ReactNode, type RefObject, type SetStateAction, useCallback, useState } from "react";
import { DocumentList, type ResultSize } from "./document_list";
import { Filters } from "./filters";
import { count } from "./format";
import { changed, Chosen, type Marked, NOTHING, numberOf, selectionOf } from "./selection";
import type { Source } from "./source";
import type { ChosenDocuments, Query, State } from "./types";

interface GridProps {
  source: Source;
  base: string;
  state: State;
  query: Query;
  setQuery: (query: Query) => void;
  marked: Marked;
  setMarked: Dispatch<SetStateAction<Marked>>;
  offsetRef: RefObject<number>;
  onRetry?: ((selection: ChosenDocuments) => Promise<void>) | undefined;
}

// The documents of a collection, with what they can be filtered by and what can be done with those that are chosen.
export function Grid({ source, base, state, query, setQuery, marked, setMarked, offsetRef, onRetry }: GridProps) {
  const [size, setSize] = useState<ResultSize | null>(null);
  const search = useCallback(
    (next: Query) => {
      setMarked(NOTHING);
      setQuery(next);
    },
    [setMarked, setQuery],
  );
  const mark = useCallback((id: number) => setMarked((before) => changed(before, id)), [setMarked]);
  return (
    <div className="grid">
      <Filters query={query} state={state} onChange={search} />
      <Summary state={state} size={size}>
        {source.exports && (
          <Chosen
            count={numberOf(marked, size?.total ?? 0)}
            total={size?.total ?? 0}
            selection={() => selectionOf(marked, query)}
            onAll={() => setMarked({ all: true, items: new Set() })}
            onClear={() => setMarked(NOTHING)}
            exports={source.exports}
            onRetry={onRetry}
          />
        )}
      </Summary>
      <DocumentList
        source={source}
        base={base}
        query={query}
        version={state.version}
        marked={marked}
        onMark={mark}
        offsetRef={offsetRef}
        onSize={setSize}
      />
    </div>
  );
}

function Summary({ state, size, children }: { state: State; size: ResultSize | null; children: ReactNode }) {
  return (
    <div className="summary">
      <span role="status">{size && `${size.exact ? "" : "more than "}${count(size.total, "document")}`}</span>
      {!state.done && (
        <StatusIndicator type="in-progress">
          Reading: {state.readFiles.toLocaleString("en")} of {count(state.jsonFiles, "file")}
        </StatusIndicator>
      )}
      {state.done && state.documents === 0 && (
        <span>
          {state.grows
            ? "No item of this run has ended yet."
            : "There are no documents in this folder: no JSON file in it is an answer or a generation."}
        </span>
      )}
      {children}
    </div>
  );
}

import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import { useState } from "react";
import { messageOf } from "./api";
import type { Exported, ExportRequest, Query, Selection } from "./types";

// The rows that a person has marked: some, or all that the query finds.
export interface Marked {
  all: boolean;
  items: Set<number>;
}

export const NOTHING: Marked = { all: false, items: new Set() };

export function numberOf(marked: Marked, total: number): number {
  return marked.all ? total : marked.items.size;
}

export function selectionOf(marked: Marked, query: Query): Selection {
  return marked.all ? { items: null, query } : { items: [...marked.items], query: null };
}

interface ChosenProps {
  count: number;
  total: number;
  selection: () => Selection;
  onAll: () => void;
  onClear: () => void;
  exports: (what: ExportRequest) => Promise<Exported>;
  onRetry?: ((selection: Selection) => Promise<void>) | undefined;
}

// How many rows are chosen, and what can be done with them.
export function Chosen({ count, total, selection, onAll, onClear, exports, onRetry }: ChosenProps) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const perform = async (what: () => Promise<void>) => {
    setBusy(true);
    setProblem(null);
    try {
      await what();
    } catch (caught) {
      setProblem(messageOf(caught));
    }
    setBusy(false);
  };
  const save = async (media: boolean) => {
    const made = await exports({ selection: selection(), media });
    const link = document.createElement("a");
    link.href = made.url;
    link.download = "";
    link.click();
  };
  if (total === 0) return null;
  return (
    <div className="chosen" role="group" aria-label="Selection">
      {count > 0 && <span>{count.toLocaleString("en")} selected</span>}
      {count < total && (
        <Button variant="inline-link" onClick={onAll}>
          Select all
        </Button>
      )}
      {count > 0 && (
        <>
          <Button variant="inline-link" onClick={onClear}>
            Clear
          </Button>
          <Button variant="inline-link" disabled={busy} onClick={() => void perform(() => save(false))}>
            Export with posters
          </Button>
          <Button variant="inline-link" disabled={busy} onClick={() => void perform(() => save(true))}>
            Export with media
          </Button>
          {onRetry && (
            <Button variant="inline-link" disabled={busy} onClick={() => void perform(() => onRetry(selection()))}>
              Retry those that failed
            </Button>
          )}
        </>
      )}
      {busy && <span role="status">Working…</span>}
      {problem && <Alert type="error">{problem}</Alert>}
    </div>
  );
}

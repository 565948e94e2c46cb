import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import { useState } from "react";
import { useAction } from "./api";
import { Confirmation } from "./confirmation";
import { count as counted, size } from "./format";
import type { Exports } from "./source";
import type { ChosenDocuments, MediaSize, Query } from "./types";

// The rows that a person has marked: some, or all that the query finds but some.
export interface Marked {
  all: boolean;
  // Those that are marked, or left out of all.
  items: Set<number>;
}

export const NOTHING: Marked = { all: false, items: new Set() };

export function numberOf(marked: Marked, total: number): number {
  return marked.all ? total - marked.items.size : marked.items.size;
}

export function isMarked(marked: Marked, id: number): boolean {
  return marked.all !== marked.items.has(id);
}

// With the row chosen if it was not, and left out if it was.
export function changed(marked: Marked, id: number): Marked {
  const items = new Set(marked.items);
  if (!items.delete(id)) items.add(id);
  return { all: marked.all, items };
}

export function selectionOf(marked: Marked, query: Query): ChosenDocuments {
  const items = [...marked.items];
  return marked.all ? { items: null, query, leftOut: items } : { items, query: null, leftOut: [] };
}

export const RETRY_SELECTED = "Retry those that failed";

interface ChosenProps {
  count: number;
  total: number;
  selection: () => ChosenDocuments;
  onAll: () => void;
  onClear: () => void;
  exports: Exports;
  // Asks the person before anything is started.
  onRetry?: ((selection: ChosenDocuments) => Promise<void>) | undefined;
}

// How many rows are chosen, and what can be done with them.
export function Chosen({ count, total, selection, onAll, onClear, exports, onRetry }: ChosenProps) {
  const { busy, problem, perform } = useAction();
  // The size of the media, while a person is asked whether to copy them.
  const [media, setMedia] = useState<MediaSize | null>(null);
  const save = async (media: boolean) => {
    const archive = await exports.make({ selection: selection(), media });
    const link = document.createElement("a");
    link.href = archive.url;
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
          <Button variant="inline-link" disabled={busy} onClick={() => void perform(async () => setMedia(await exports.mediaSize(selection())))}>
            Export with media
          </Button>
          {onRetry && (
            <Button variant="inline-link" disabled={busy} onClick={() => void perform(() => onRetry(selection()))}>
              {RETRY_SELECTED}
            </Button>
          )}
        </>
      )}
      {busy && <span role="status">Working…</span>}
      {media && (
        <Confirmation
          title="Export with media"
          busy={busy}
          onConfirm={() => perform(() => save(true)).then(() => setMedia(null))}
          onCancel={() => setMedia(null)}
        >
          <p>
            {counted(media.files, "video or image", "videos and images")} of {size(media.bytes)} are copied into the
            archive. What browsers do not play is converted, which takes a while.
          </p>
        </Confirmation>
      )}
      {problem && <Alert type="error">{problem}</Alert>}
    </div>
  );
}

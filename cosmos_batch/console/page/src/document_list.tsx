import Alert from "@cloudscape-design/components/alert";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, memo, type RefObject, useCallback, useEffect, useRef, useState } from "react";
import { DocumentRow } from "./document_row";
import { useRows } from "./rows";
import { isMarked, type Marked } from "./selection";
import type { Source } from "./source";
import type { Query } from "./types";

const ROW_HEIGHT = 104; // pixels, as in style.css

// How many documents a query finds.
export interface ResultSize {
  total: number;
  // False while only the first rows are known, and `total` is a lower limit.
  exact: boolean;
}

interface DocumentListProps {
  source: Source;
  base: string;
  query: Query;
  version: number;
  marked: Marked;
  onMark: (id: number) => void;
  // Where the person has scrolled to, in pixels, kept while an item is open.
  offsetRef: RefObject<number>;
  onSize: (size: ResultSize) => void;
}

// The documents that a query finds, of which only those in view are in the page.
export const DocumentList = memo(function DocumentList(props: DocumentListProps) {
  const { source, base, query, version, marked, onMark, offsetRef, onSize } = props;
  const list = useRef<HTMLDivElement>(null);
  const [total, setTotal] = useState(0);
  const [active, setActive] = useState(0);
  const virtual = useVirtualizer({
    count: total,
    getScrollElement: () => list.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 6,
    initialOffset: offsetRef.current,
  });
  const items = virtual.getVirtualItems();
  const rows = useRows(source, query, version, items[0]?.index ?? 0, items.at(-1)?.index ?? 0);
  useEffect(() => {
    setTotal(rows.total ?? 0);
    if (rows.total !== null) onSize({ total: rows.total, exact: rows.exact });
  }, [rows.total, rows.exact, onSize]);
  const shown = useRef(query);
  useEffect(() => {
    if (shown.current === query) return;
    shown.current = query;
    setActive(0);
    virtual.scrollToOffset(0);
  }, [query, virtual]);
  const focus = useCallback((index: number) => setActive(index), []);
  const move = (event: KeyboardEvent) => {
    const target = { ArrowDown: active + 1, ArrowUp: active - 1, Home: 0, End: total - 1 }[event.key];
    if (target === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const next = Math.min(Math.max(0, target), Math.max(0, total - 1));
    setActive(next);
    virtual.scrollToIndex(next);
    requestAnimationFrame(() => list.current?.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus());
  };
  return (
    <>
      {rows.error && <Alert type="error">{rows.error}</Alert>}
      <div
        className="list"
        ref={list}
        tabIndex={-1}
        onScroll={(event) => {
          offsetRef.current = event.currentTarget.scrollTop;
        }}
      >
        <ul aria-label="Documents" style={{ height: virtual.getTotalSize() }} onKeyDown={move}>
          {items.map((one) => {
            const row = rows.row(one.index);
            return (
              <li
                key={one.key}
                aria-posinset={one.index + 1}
                aria-setsize={total}
                style={{ transform: `translateY(${one.start}px)` }}
              >
                <DocumentRow
                  row={row}
                  base={base}
                  index={one.index}
                  isActive={one.index === Math.min(active, total - 1)}
                  onFocus={focus}
                  isMarked={source.exports && row ? isMarked(marked, row.id) : null}
                  onMark={onMark}
                />
              </li>
            );
          })}
        </ul>
      </div>
    </>
  );
});

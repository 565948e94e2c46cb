import Alert from "@cloudscape-design/components/alert";
import Badge from "@cloudscape-design/components/badge";
import Box from "@cloudscape-design/components/box";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { Filters } from "./filters";
import { count, moment } from "./format";
import { useRows } from "./rows";
import type { Source } from "./source";
import type { Query, Row, State } from "./types";

const ROW_HEIGHT = 104; // pixels, as in style.css
const POSTER_DELAY = 120; // milliseconds that a row is in view before its poster is asked for

// What the person chose, kept while an item is open.
export interface View {
  query: Query;
  offset: number;
}

interface GridProps {
  source: Source;
  state: State;
  view: View;
  setView: (view: View) => void;
}

export function Grid({ source, state, view, setView }: GridProps) {
  const list = useRef<HTMLDivElement>(null);
  const [total, setTotal] = useState(0);
  const [active, setActive] = useState(0);
  const virtual = useVirtualizer({
    count: total,
    getScrollElement: () => list.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 6,
    initialOffset: view.offset,
  });
  const items = virtual.getVirtualItems();
  const rows = useRows(source, view.query, state.documents, items[0]?.index ?? 0, items.at(-1)?.index ?? 0);
  useEffect(() => setTotal(rows.total ?? 0), [rows.total]);

  const search = (query: Query) => {
    setView({ query, offset: 0 });
    setActive(0);
    virtual.scrollToOffset(0);
  };
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
    <div className="grid">
      <Filters query={view.query} state={state} onChange={search} />
      <Summary state={state} total={rows.total} />
      {rows.error && <Alert type="error">{rows.error}</Alert>}
      <div
        className="list"
        ref={list}
        tabIndex={-1}
        onScroll={() => setView({ ...view, offset: list.current?.scrollTop ?? 0 })}
      >
        <ul aria-label="Documents" style={{ height: virtual.getTotalSize() }} onKeyDown={move}>
          {items.map((one) => (
            <li
              key={one.key}
              aria-posinset={one.index + 1}
              aria-setsize={total}
              style={{ transform: `translateY(${one.start}px)` }}
            >
              <RowCard
                row={rows.row(one.index)}
                index={one.index}
                isActive={one.index === Math.min(active, total - 1)}
                onFocus={() => setActive(one.index)}
              />
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}

function Summary({ state, total }: { state: State; total: number | null }) {
  return (
    <div className="summary" role="status">
      {total !== null && <span>{count(total, "document")}</span>}
      {!state.done && (
        <StatusIndicator type="in-progress">
          Reading: {state.lookedAt.toLocaleString("en")} of {count(state.found, "file")}
        </StatusIndicator>
      )}
      {state.done && state.documents === 0 && (
        <span>There are no documents in this folder: no JSON file in it is an answer or a generation.</span>
      )}
    </div>
  );
}

interface RowCardProps {
  row: Row | undefined;
  index: number;
  isActive: boolean;
  onFocus: () => void;
}

function RowCard({ row, index, isActive, onFocus }: RowCardProps) {
  if (!row) return <div className="row waiting" />;
  return (
    <a
      className="row"
      href={`#/item/${row.id}`}
      data-index={index}
      tabIndex={isActive ? 0 : -1}
      onFocus={onFocus}
    >
      <Poster url={row.poster} key={row.id} />
      <div className="texts">
        <div className="title">
          <RowStatus row={row} />
          <strong>{row.name}</strong>
          <span className="faint">{moment(row.timestamp)}</span>
        </div>
        <div className="prompt">{row.prompt}</div>
        <div className="answer">{row.answer}</div>
      </div>
      <div className="aside">
        <span className="faint">{row.model || row.pipeline}</span>
        <span className="labels">
          {row.events > 0 && <Badge color="blue">{count(row.events, "event")}</Badge>}
          {row.labels.slice(0, 3).map((label) => (
            <Badge key={label}>{label}</Badge>
          ))}
        </span>
      </div>
    </a>
  );
}

function RowStatus({ row }: { row: Row }) {
  if (row.kind === "error") return <StatusIndicator type="error">{row.errorCode}</StatusIndicator>;
  return <StatusIndicator type="success">{row.kind === "answer" ? "Answered" : "Generated"}</StatusIndicator>;
}

// A poster is asked for when its row has stayed in view for a moment: scrolling fast asks for none.
function Poster({ url }: { url: string | null }) {
  const [shown, setShown] = useState(false);
  const [broken, setBroken] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), POSTER_DELAY);
    return () => clearTimeout(timer);
  }, []);
  return (
    <span className="poster">
      {shown && url && !broken && <img src={url} alt="" onError={() => setBroken(true)} />}
      {(!url || broken) && <Box color="text-body-secondary">{broken ? "no picture" : "not in the folder"}</Box>}
    </span>
  );
}

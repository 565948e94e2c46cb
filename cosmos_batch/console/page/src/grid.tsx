import Alert from "@cloudscape-design/components/alert";
import Badge from "@cloudscape-design/components/badge";
import Box from "@cloudscape-design/components/box";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { Filters } from "./filters";
import { count, dollars, duration, moment } from "./format";
import { useRows } from "./rows";
import { Chosen, type Marked, NOTHING, numberOf, selectionOf } from "./selection";
import type { Source } from "./source";
import type { Query, Row, Selection, State } from "./types";

const ROW_HEIGHT = 104; // pixels, as in style.css
const POSTER_DELAY = 120; // milliseconds that a row is in view before its poster is asked for

// What the person chose, kept while an item is open.
export interface View {
  query: Query;
  offset: number;
}

interface GridProps {
  source: Source;
  base: string;
  state: State;
  view: View;
  setView: (view: View) => void;
  onRetry?: ((selection: Selection) => Promise<void>) | undefined;
}

export function Grid({ source, base, state, view, setView, onRetry }: GridProps) {
  const list = useRef<HTMLDivElement>(null);
  const [total, setTotal] = useState(0);
  const [active, setActive] = useState(0);
  const [marked, setMarked] = useState<Marked>(NOTHING);
  const virtual = useVirtualizer({
    count: total,
    getScrollElement: () => list.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 6,
    initialOffset: view.offset,
  });
  const items = virtual.getVirtualItems();
  const rows = useRows(source, view.query, state.version, items[0]?.index ?? 0, items.at(-1)?.index ?? 0);
  useEffect(() => setTotal(rows.total ?? 0), [rows.total]);

  const search = (query: Query) => {
    setView({ query, offset: 0 });
    setActive(0);
    setMarked(NOTHING);
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
      <Summary state={state} total={rows.total} exact={rows.exact}>
        {source.exports && (
          <Chosen
            count={numberOf(marked, rows.total ?? 0)}
            total={rows.total ?? 0}
            selection={() => selectionOf(marked, view.query)}
            onAll={() => setMarked({ all: true, items: new Set() })}
            onClear={() => setMarked(NOTHING)}
            exports={source.exports}
            onRetry={onRetry}
          />
        )}
      </Summary>
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
              {source.exports && (
                <Mark
                  row={rows.row(one.index)}
                  marked={marked}
                  onChange={setMarked}
                />
              )}
              <RowCard
                row={rows.row(one.index)}
                base={base}
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

interface SummaryProps {
  state: State;
  total: number | null;
  exact: boolean;
  children: ReactNode;
}

function Summary({ state, total, exact, children }: SummaryProps) {
  return (
    <div className="summary">
      <span role="status">{total !== null && `${exact ? "" : "more than "}${count(total, "document")}`}</span>
      {!state.done && (
        <StatusIndicator type="in-progress">
          Reading: {state.lookedAt.toLocaleString("en")} of {count(state.found, "file")}
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

interface MarkProps {
  row: Row | undefined;
  marked: Marked;
  onChange: (marked: Marked) => void;
}

// Chooses a row, or leaves it out.
function Mark({ row, marked, onChange }: MarkProps) {
  if (!row) return null;
  const change = () => {
    const items = new Set(marked.items);
    if (!items.delete(row.id)) items.add(row.id);
    onChange({ all: false, items });
  };
  return (
    <input
      className="mark"
      type="checkbox"
      aria-label={`Select ${row.name}`}
      checked={marked.all || marked.items.has(row.id)}
      onChange={change}
    />
  );
}

interface RowCardProps {
  row: Row | undefined;
  base: string;
  index: number;
  isActive: boolean;
  onFocus: () => void;
}

function RowCard({ row, base, index, isActive, onFocus }: RowCardProps) {
  if (!row) return <div className="row waiting" />;
  return (
    <a
      className="row"
      href={`${base}/item/${row.id}`}
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
        <div className="answer">
          {row.answer} {row.remedy}
        </div>
      </div>
      <div className="aside">
        <span className="faint">{row.model || row.pipeline}</span>
        <span className="faint">{[row.variant, ...costs(row)].filter(Boolean).join(" · ")}</span>
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

function costs(row: Row): string[] {
  return [
    row.duration === null ? "" : duration(row.duration),
    row.dollars === null ? "" : dollars(row.dollars),
    row.score === null ? "" : `score ${row.score}`,
  ];
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

// Where the page has its data from: the server that serves it, or the scripts of an export.

import { ask, send } from "./api";
import type { ChosenDocuments, Detail, ExportMade, ExportRequest, MediaSize, Preview, Query, Row, Rows, State } from "./types";

export interface Exports {
  make(what: ExportRequest): Promise<ExportMade>;
  mediaSize(selection: ChosenDocuments): Promise<MediaSize>;
}

export interface Source {
  state(): Promise<State>;
  rows(query: Query, offset: number, limit: number, signal: AbortSignal): Promise<Rows>;
  detail(id: number): Promise<Detail>;
  preview(url: string): Promise<Preview>;
  // Null where nothing can be exported.
  exports: Exports | null;
  // The URL of an item's log; null where there are no logs.
  log: ((id: number) => string) | null;
}

// The view of a run, whose items have logs.
export function runOf(run: string): Source {
  return { ...viewOf(run), log: (id) => `/api/runs/${encodeURIComponent(run)}/items/${id}/log` };
}

export function viewOf(name: string): Source {
  const url = `/api/views/${encodeURIComponent(name)}`;
  return {
    state: () => ask(`${url}/state`),
    rows: (query, offset, limit, signal) => ask(`${url}/rows?${parameters(query, offset, limit)}`, { signal }),
    detail: (id) => ask(`${url}/items/${id}`),
    preview: (preview) => ask(preview),
    exports: {
      make: (what) => send(`${url}/exports`, what),
      mediaSize: (selection) => send(`${url}/media-size`, selection),
    },
    log: null,
  };
}

function parameters(query: Query, offset: number, limit: number): URLSearchParams {
  const chosen = Object.entries(query).filter(([, value]) => value !== null);
  const values = new URLSearchParams(chosen.map(([name, value]) => [name, String(value)]));
  values.set("offset", String(offset));
  values.set("limit", String(limit));
  return values;
}

interface Exported {
  state: State;
  rows: Row[];
  texts: string[];
  chunk: number;
  details(chunk: Detail[]): void;
}

declare global {
  interface Window {
    cosmosBatch?: Exported;
  }
}

export function exported(data: Exported): Source {
  const details = new Map<number, Detail>();
  data.details = (chunk) => chunk.forEach((detail) => details.set(detail.row.id, detail));
  return {
    state: () => Promise.resolve(data.state),
    rows: (query, offset, limit) => {
      const matching = select(data, query);
      const rows = matching.slice(offset, offset + limit);
      return Promise.resolve({ total: matching.length, exact: true, version: 0, rows });
    },
    detail: async (id) => {
      if (!details.has(id)) await load(`data/details-${Math.floor((id - 1) / data.chunk)}.js`);
      const detail = details.get(id);
      if (!detail) throw new Error("There is no such document.");
      return detail;
    },
    preview: () => Promise.reject(new Error("An export converts nothing.")),
    exports: null,
    log: null,
  };
}

function load(path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = path;
    script.addEventListener("load", () => resolve());
    script.addEventListener("error", () => reject(new Error(`${path} is missing.`)));
    document.head.append(script);
  });
}

function select(data: Exported, query: Query): Row[] {
  const words = folded(query.search).split(/\s+/).filter(Boolean);
  const matching = data.rows.filter(
    (row, number) =>
      (!query.status || (row.kind === "error") === (query.status === "failed")) &&
      (!query.errorCode || row.errorCode === query.errorCode) &&
      (!query.model || row.model === query.model) &&
      (!query.label || row.labels.includes(query.label)) &&
      within(row.duration, query.minSeconds, query.maxSeconds) &&
      within(row.score, query.minScore, query.maxScore) &&
      words.every((word) => data.texts[number]?.includes(word)),
  );
  return matching.sort(ORDERS[query.sort]);
}

// As `folded` of cosmos_batch/console/queries.py does it with the texts.
function folded(text: string): string {
  return text.toUpperCase().toLowerCase().replaceAll("ς", "σ");
}

function within(value: number | null, least: number | null, most: number | null): boolean {
  if (least === null && most === null) return true;
  return value !== null && (least === null || value >= least) && (most === null || value <= most);
}

const compare = (one: string, other: string) => (one < other ? -1 : one > other ? 1 : 0);
const greatest = (one: number | null, other: number | null) => (other ?? -Infinity) - (one ?? -Infinity) || 0;
const ORDERS: Record<Query["sort"], (one: Row, other: Row) => number> = {
  newest: (one, other) => compare(other.timestamp, one.timestamp) || other.id - one.id,
  oldest: (one, other) => compare(one.timestamp, other.timestamp) || one.id - other.id,
  name: (one, other) => compare(one.name, other.name) || compare(one.timestamp, other.timestamp) || one.id - other.id,
  model: (one, other) => compare(one.model, other.model) || compare(one.name, other.name) || one.id - other.id,
  slowest: (one, other) => greatest(one.duration, other.duration) || one.id - other.id,
  dearest: (one, other) => greatest(one.dollars, other.dollars) || one.id - other.id,
  score: (one, other) => greatest(one.score, other.score) || one.id - other.id,
};

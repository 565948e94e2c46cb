// Where the page has its data from: the server that serves it, or the scripts of an export.

import type { Detail, Preview, Query, Row, Rows, State } from "./types";

export interface Source {
  state(): Promise<State>;
  rows(query: Query, offset: number, limit: number, signal: AbortSignal): Promise<Rows>;
  detail(id: number): Promise<Detail>;
  preview(url: string): Promise<Preview>;
}

async function ask<Answer>(url: string, options: RequestInit = {}): Promise<Answer> {
  let response: Response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Error("The console does not answer any more. Start cosmos-batch view again.", { cause: error });
  }
  const answer: unknown = response.status === 204 ? null : await response.json();
  if (!response.ok) throw new Error((answer as { message: string }).message);
  return answer as Answer;
}

export const server: Source = {
  state: () => ask("/api/state"),
  rows: (query, offset, limit, signal) => {
    const values = new URLSearchParams({ ...query, offset: String(offset), limit: String(limit) });
    return ask(`/api/rows?${values}`, { signal });
  },
  detail: (id) => ask(`/api/items/${id}`),
  preview: (url) => ask(url),
};

// Exchanges the token of the URL for a cookie, and takes it out of the URL.
export async function signIn(): Promise<void> {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  await ask("/api/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token }),
  });
}

interface Exported {
  state: State;
  rows: Row[];
  texts: string[];
  chunk: number;
  details(found: Detail[]): void;
}

declare global {
  interface Window {
    cosmosBatch?: Exported;
  }
}

export function exported(data: Exported): Source {
  const details = new Map<number, Detail>();
  data.details = (found) => found.forEach((detail) => details.set(detail.row.id, detail));
  return {
    state: () => Promise.resolve(data.state),
    rows: (query, offset, limit) => {
      const found = select(data, query);
      return Promise.resolve({ total: found.length, version: 0, rows: found.slice(offset, offset + limit) });
    },
    detail: async (id) => {
      if (!details.has(id)) await load(`data/details-${Math.floor((id - 1) / data.chunk)}.js`);
      const detail = details.get(id);
      if (!detail) throw new Error("There is no such document.");
      return detail;
    },
    preview: () => Promise.reject(new Error("An export converts nothing.")),
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
  const words = query.search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = data.rows.filter(
    (row, number) =>
      (!query.status || (row.kind === "error") === (query.status === "failed")) &&
      (!query.errorCode || row.errorCode === query.errorCode) &&
      (!query.model || row.model === query.model) &&
      (!query.label || row.labels.includes(query.label)) &&
      words.every((word) => data.texts[number]?.includes(word)),
  );
  return found.sort(ORDERS[query.sort]);
}

const compare = (one: string, other: string) => (one < other ? -1 : one > other ? 1 : 0);
const ORDERS: Record<Query["sort"], (one: Row, other: Row) => number> = {
  newest: (one, other) => compare(other.timestamp, one.timestamp) || other.id - one.id,
  oldest: (one, other) => compare(one.timestamp, other.timestamp) || one.id - other.id,
  name: (one, other) => compare(one.name, other.name) || compare(one.timestamp, other.timestamp) || one.id - other.id,
  model: (one, other) => compare(one.model, other.model) || compare(one.name, other.name) || one.id - other.id,
};

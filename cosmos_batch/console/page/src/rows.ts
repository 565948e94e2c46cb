// The rows that are in view, fetched in pages; those far away are forgotten.

import { useEffect, useRef, useState } from "react";
import type { Source } from "./source";
import type { Query, Row } from "./types";

const PAGE = 100;
const PAGES_KEPT = 20;
const COUNTING = 300; // milliseconds until a result that is still counted is asked for again

interface Loaded {
  key: string;
  total: number;
  exact: boolean;
  pages: Map<number, Row[]>;
}

export interface VisibleRows {
  total: number | null;
  // False while only the first rows are known, and `total` is a lower limit.
  exact: boolean;
  row(index: number): Row | undefined;
  error: string | null;
}

export function useRows(source: Source, query: Query, version: number, first: number, last: number): VisibleRows {
  const key = `${version} ${JSON.stringify(query)}`;
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [error, setError] = useState<string | null>(null);
  const current = useRef<Loaded | null>(null);
  const firstPage = Math.floor(Math.max(0, first) / PAGE);
  const lastPage = Math.floor(Math.max(0, last) / PAGE);

  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const fetchPage = async (page: number) => {
      const known = current.current;
      if (known?.key === key && known.pages.has(page) && known.exact) return;
      try {
        const answer = await source.rows(query, page * PAGE, PAGE, abort.signal);
        if (abort.signal.aborted) return;
        const before = current.current?.key === key ? current.current.pages : new Map<number, Row[]>();
        const pages = new Map([...before, [page, answer.rows] as const].slice(-PAGES_KEPT));
        current.current = { key, total: answer.total, exact: answer.exact, pages };
        setLoaded(current.current);
        setError(null);
        if (!answer.exact) timer = setTimeout(() => void fetchPage(page), COUNTING);
      } catch (caught) {
        if (!abort.signal.aborted) setError(caught instanceof Error ? caught.message : String(caught));
      }
    };
    for (let page = firstPage; page <= lastPage; page++) void fetchPage(page);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
    // `key` stands for the query.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [source, key, firstPage, lastPage]);

  return {
    total: loaded?.total ?? null,
    exact: loaded?.exact ?? false,
    row: (index) => loaded?.pages.get(Math.floor(index / PAGE))?.[index % PAGE],
    error,
  };
}

// Requests to the console that serves this page.

import { useEffect, useRef, useState } from "react";

export async function ask<Answer>(url: string, options: RequestInit = {}): Promise<Answer> {
  let response: Response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Error("The console does not answer any more. Start it again with the command that you have used.", {
      cause: error,
    });
  }
  if (!response.ok) throw new Error(await reasonOf(response));
  return (response.status === 204 ? null : await response.json()) as Answer;
}

async function reasonOf(response: Response): Promise<string> {
  try {
    return ((await response.json()) as { message: string }).message;
  } catch {
    // The server has answered before the console's own code could, as it does where too many requests come at once.
    return `The console has answered with status ${response.status} and no reason. Try again.`;
  }
}

export function send<Answer>(url: string, body: unknown): Promise<Answer> {
  return ask(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

// Exchanges the token of the URL for a cookie, and takes it out of the URL.
export async function signIn(): Promise<void> {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  await send("/api/session", { token });
}

export function messageOf(caught: unknown): string {
  return caught instanceof Error ? caught.message : String(caught);
}

export interface Action {
  busy: boolean;
  problem: string | null;
  setProblem: (problem: string | null) => void;
  // Does something, and keeps why it could not be done.
  perform: (what: () => Promise<void>) => Promise<void>;
}

export function useAction(): Action {
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
  return { busy, problem, setProblem, perform };
}

export interface Polled<Value> {
  value: Value | null;
  error: string | null;
  again(): void;
}

// Asks for something again and again: `pause` says after how many milliseconds, or null for never. After an error it
// goes on, because a network comes back.
export function usePolled<Value>(
  key: string,
  fetchValue: () => Promise<Value>,
  pause: (value: Value) => number | null,
): Polled<Value> {
  const [value, setValue] = useState<{ key: string; value: Value } | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [round, setRound] = useState(0);
  const latest = useRef({ fetchValue, pause });
  latest.current = { fetchValue, pause };
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let ended = false;
    const poll = async () => {
      let wait: number | null = RETRY;
      try {
        const fetched = await latest.current.fetchValue();
        if (ended) return;
        setValue({ key, value: fetched });
        setError(null);
        wait = latest.current.pause(fetched);
      } catch (caught) {
        if (ended) return;
        setError(messageOf(caught));
      }
      if (wait !== null) timer = setTimeout(poll, wait);
    };
    void poll();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [key, round]);
  return { value: value?.key === key ? value.value : null, error, again: () => setRound((one) => one + 1) };
}

const RETRY = 5000; // milliseconds after an error

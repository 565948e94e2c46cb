import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import { useState } from "react";
import { ask, messageOf } from "./api";

// What a worker has logged about an item, fetched when it is asked for.
export function ItemLog({ url }: { url: string }) {
  const [lines, setLines] = useState<string[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const load = async () => {
    setProblem(null);
    try {
      setLines((await ask<{ lines: string[] }>(url)).lines);
    } catch (caught) {
      setProblem(messageOf(caught));
    }
  };
  if (problem) return <Alert type="info">{problem}</Alert>;
  if (!lines) return <Button onClick={() => void load()}>Show the log</Button>;
  return (
    <pre className="document" tabIndex={0} aria-label="Log">
      {lines.join("\n") || "The worker has logged nothing about it."}
    </pre>
  );
}

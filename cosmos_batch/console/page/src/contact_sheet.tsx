import { useEffect, useRef, useState } from "react";
import { messageOf } from "./api";
import { useViewState } from "./collection_page";
import { isVideo, PlayInStep, Thumbnail } from "./in_step";
import type { Source } from "./source";
import { EVERYTHING, type Row } from "./types";

const CELLS = 100;

// The items of a sweep: a row for each file and prompt, a column for each seed. Videos are played in step.
export function ContactSheet({ source, base }: { source: Source; base: string }) {
  const [rows, setRows] = useState<Row[] | null>(null);
  const [total, setTotal] = useState(0);
  const [problem, setProblem] = useState("");
  const sheet = useRef<HTMLTableElement>(null);
  const { value: state } = useViewState(source, base);
  const version = state?.version;
  useEffect(() => {
    const abort = new AbortController();
    source.rows({ ...EVERYTHING, sort: "name" }, 0, CELLS, abort.signal).then(
      (answer) => {
        setRows(answer.rows);
        setTotal(answer.total);
      },
      (caught: unknown) => {
        if (!abort.signal.aborted) setProblem(messageOf(caught));
      },
    );
    return () => abort.abort();
  }, [source, version]);
  if (problem) return <p>{problem}</p>;
  const variants = (rows ?? []).filter((row) => row.variant);
  const lines = [...new Set(variants.map(lineOf))].sort();
  const seeds = [...new Set(variants.map(seedOf))].sort((one, other) => Number(one) - Number(other));
  return (
    <div className="scrolled">
      <nav aria-label="Back">
        <a href={base}>← All items</a>
      </nav>
      {rows && rows.length < total && (
        <p>
          The first {rows.length.toLocaleString("en")} of {total.toLocaleString("en")} items are shown, by their names.
        </p>
      )}
      {variants.some(isVideo) && <PlayInStep table={sheet} />}
      <table className="sheet" ref={sheet}>
        <thead>
          <tr>
            <th scope="col">Prompt</th>
            {seeds.map((seed) => (
              <th key={seed} scope="col">
                {seed ? `Seed ${seed}` : "Answer"}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {lines.map((line) => (
            <tr key={line}>
              <th scope="row" className="spoken">
                {line}
              </th>
              {seeds.map((seed) => (
                <td key={seed}>
                  {variants
                    .filter((row) => lineOf(row) === line && seedOf(row) === seed)
                    .map((row) => (
                      <Cell key={row.id} row={row} base={base} />
                    ))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Cell({ row, base }: { row: Row; base: string }) {
  return (
    <div className="cell-of-sheet">
      <Thumbnail row={row} />
      <a href={`${base}/item/${row.id}`}>{row.errorCode ?? row.name}</a>
      {row.kind === "answer" && <div className="spoken">{row.answer}</div>}
    </div>
  );
}

function variantOf(row: Row): Record<string, string | number> {
  try {
    return JSON.parse(row.variant) as Record<string, string | number>;
  } catch {
    return {};
  }
}

const seedOf = (row: Row) => String(variantOf(row).seed ?? "");
const lineOf = (row: Row) => (row.kind === "generation" ? row.prompt : `${row.name}: ${row.prompt}`);

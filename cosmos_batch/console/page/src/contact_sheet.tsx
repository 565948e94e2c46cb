import Button from "@cloudscape-design/components/button";
import { type RefObject, useEffect, useRef, useState } from "react";
import { messageOf } from "./api";
import type { Source } from "./source";
import { EVERYTHING, type Row } from "./types";

const CELLS = 100;
const DRIFT = 0.1; // seconds by which a video may be away from the others

// The items of a sweep: a row for each file and prompt, a column for each seed. Videos are played in step.
export function ContactSheet({ source, base }: { source: Source; base: string }) {
  const [rows, setRows] = useState<Row[] | null>(null);
  const [problem, setProblem] = useState("");
  const sheet = useRef<HTMLTableElement>(null);
  useEffect(() => {
    const abort = new AbortController();
    source.rows({ ...EVERYTHING, sort: "name" }, 0, CELLS, abort.signal).then(
      (found) => setRows(found.rows),
      (caught: unknown) => setProblem(messageOf(caught)),
    );
    return () => abort.abort();
  }, [source]);
  useInStep(sheet);
  if (problem) return <p>{problem}</p>;
  const variants = (rows ?? []).filter((row) => row.variant);
  const lines = [...new Set(variants.map(lineOf))].sort();
  const seeds = [...new Set(variants.map(seedOf))].sort((one, other) => Number(one) - Number(other));
  const all = () => [...(sheet.current?.querySelectorAll("video") ?? [])];
  return (
    <div className="scrolled">
      <nav aria-label="Back">
        <a href={base}>← All items</a>
      </nav>
      <div className="run-line">
        <Button onClick={() => all().forEach((video) => void video.play())}>Play all</Button>
        <Button onClick={() => all().forEach((video) => video.pause())}>Pause all</Button>
        <Button
          onClick={() =>
            all().forEach((video) => {
              video.currentTime = 0;
            })
          }
        >
          To the beginning
        </Button>
      </div>
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
  const isVideo = row.kind === "generation" && row.media !== null && !/\.(png|jpe?g)$/i.test(row.name);
  return (
    <div className="cell-of-sheet">
      {isVideo && row.media && (
        <video src={row.media} muted loop playsInline preload="metadata" aria-label={`Video ${row.name}`} />
      )}
      {!isVideo && row.poster && <img src={row.poster} alt={row.name} />}
      <a href={`${base}/item/${row.id}`}>{row.errorCode ?? row.name}</a>
      {row.kind === "answer" && <div className="spoken">{row.answer}</div>}
    </div>
  );
}

// Keeps the videos of a sheet at the time of the first of them.
function useInStep(sheet: RefObject<HTMLTableElement | null>): void {
  useEffect(() => {
    const timer = setInterval(() => {
      const [first, ...others] = sheet.current?.querySelectorAll("video") ?? [];
      if (!first || first.paused) return;
      for (const video of others) {
        if (Math.abs(video.currentTime - first.currentTime) > DRIFT) video.currentTime = first.currentTime;
      }
    }, 500);
    return () => clearInterval(timer);
  }, [sheet]);
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

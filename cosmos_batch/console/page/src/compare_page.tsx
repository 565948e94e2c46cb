import Alert from "@cloudscape-design/components/alert";
import Badge from "@cloudscape-design/components/badge";
import Select from "@cloudscape-design/components/select";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { ask, usePolled } from "./api";
import { Waiting } from "./app";
import { isVideo, PlayInStep, Thumbnail } from "./in_step";
import type { ComparedEnd, ComparedPair, ComparedRuns, RunList } from "./types";

interface ComparePageProps {
  first: string;
  // Empty before a person has chosen it.
  second: string;
  onTitle: (title: string) => void;
}

// Two runs side by side: how many answers agree, and those that differ.
export function ComparePage({ first, second, onTitle }: ComparePageProps) {
  const [by, setBy] = useState("id");
  const runs = usePolled<RunList>(
    "runs",
    () => ask("/api/runs?limit=200"),
    () => null,
  );
  useEffect(() => onTitle("Compare"), [onTitle]);
  const others = runs.value?.runs.map((run) => run.id).filter((run) => run !== first) ?? [];
  return (
    <div className="scrolled">
      <h2>Compare {first}</h2>
      <div className="run-line">
        <Select
          ariaLabel="Other run"
          expandToViewport
          placeholder="Choose the other run"
          filteringType="auto"
          selectedOption={second ? { value: second, label: second } : null}
          options={others.map((run) => ({ value: run, label: run }))}
          onChange={({ detail }) => {
            location.hash = `#/compare/${encodeURIComponent(first)}/${encodeURIComponent(detail.selectedOption.value ?? "")}`;
          }}
        />
        <Select
          ariaLabel="Items belong together"
          expandToViewport
          selectedOption={KEYS.find((one) => one.value === by) ?? null}
          options={KEYS}
          onChange={({ detail }) => setBy(detail.selectedOption.value ?? "id")}
        />
      </div>
      {second && <Compared key={`${second} ${by}`} first={first} second={second} by={by} />}
    </div>
  );
}

const KEYS = [
  { value: "id", label: "By the ids of items" },
  { value: "input", label: "By files and variants" },
];

// Changes that are no differences.
const ALIKE = ["same", "fails in both"];

function Compared({ first, second, by }: { first: string; second: string; by: string }) {
  const url = `/api/runs/${encodeURIComponent(first)}/compared/${encodeURIComponent(second)}?by=${by}`;
  const { value, error } = usePolled<ComparedRuns>(
    url,
    () => ask(url),
    () => null,
  );
  const table = useRef<HTMLTableElement>(null);
  if (error) return <Alert type="error">{error}</Alert>;
  if (!value) return <Waiting />;
  const differences = Object.entries(value.counts).reduce((sum, [change, number]) => sum + (ALIKE.includes(change) ? 0 : number), 0);
  return (
    <>
      <p role="status">
        {value.agreement !== null && <strong>{(100 * value.agreement).toFixed(1)} % agree. </strong>}
        {Object.entries(value.counts)
          .map(([change, number]) => `${number.toLocaleString("en")} ${change}`)
          .join(", ")}
      </p>
      {value.pairs.length < differences && (
        <p>
          The first {value.pairs.length.toLocaleString("en")} of {differences.toLocaleString("en")} differences are shown.{" "}
          <code>cosmos-batch runs diff --json</code> lists all.
        </p>
      )}
      {value.pairs.some(hasVideo) && <PlayInStep table={table} />}
      <table className="runs compared" ref={table}>
        <thead>
          <tr>
            <th scope="col">Item</th>
            <th scope="col">{first}</th>
            <th scope="col">{second}</th>
          </tr>
        </thead>
        <tbody>
          {value.pairs.map((pair) => (
            <tr key={`${pair.item} ${pair.input}`}>
              <th scope="row" className="spoken">
                {pair.item} <Badge>{pair.change}</Badge>
              </th>
              <End run={first} end={pair.first} other={pair.second} />
              <End run={second} end={pair.second} other={pair.first} />
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

const hasVideo = ({ first, second }: ComparedPair) => [first, second].some((end) => end?.row && isVideo(end.row));

// How an item has ended in one of the runs, with what it is about or what was generated, and a link to all of it.
function End({ run, end, other }: { run: string; end: ComparedEnd | null; other: ComparedEnd | null }) {
  return (
    <td className="spoken">
      {end?.row && (
        <a className="cell-of-sheet" href={`#/runs/${encodeURIComponent(run)}/item/${end.row.id}`}>
          <Thumbnail row={end.row} />
          {end.row.name}
        </a>
      )}
      <div>{shown(end, other)}</div>
    </td>
  );
}

// An answer in which the words are marked that the other does not have.
function shown(end: ComparedEnd | null, other: ComparedEnd | null): ReactNode {
  if (!end) return <span className="faint">not in this run</span>;
  if (end.error) return <Badge color="red">{end.error}</Badge>;
  const known = new Set((other?.answer ?? "").split(/\s+/));
  return (end.answer ?? "").split(/(\s+)/).map((word, number) => {
    const differs = other?.answer && word.trim() && !known.has(word);
    return differs ? <mark key={number}>{word}</mark> : word;
  });
}

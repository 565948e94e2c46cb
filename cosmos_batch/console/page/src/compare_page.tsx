import Alert from "@cloudscape-design/components/alert";
import Badge from "@cloudscape-design/components/badge";
import Select from "@cloudscape-design/components/select";
import { type Change, diffWords } from "diff";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
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
  // How items belong together, once the person has chosen it. Before, it is by files, or by ids with a run where several
  // items are about one file.
  const [chosen, setChosen] = useState<string | null>(null);
  const [ambiguous, setAmbiguous] = useState("");
  const by = chosen ?? (ambiguous === second ? BY_IDS : BY_FILES);
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
          onChange={({ detail }) => setChosen(detail.selectedOption.value ?? null)}
        />
      </div>
      {second && (
        <Compared
          key={`${second} ${by}`}
          first={first}
          second={second}
          by={by}
          onError={chosen === null && by === BY_FILES ? () => setAmbiguous(second) : undefined}
        />
      )}
    </div>
  );
}

const BY_FILES = "input";
const BY_IDS = "id";
const KEYS = [
  { value: BY_FILES, label: "By files and variants" },
  { value: BY_IDS, label: "By the ids of items" },
];

// Changes that are no differences.
const ALIKE = ["same", "fails in both"];

interface ComparedProps {
  first: string;
  second: string;
  by: string;
  // What to do instead of showing why the runs cannot be compared in this way.
  onError: (() => void) | undefined;
}

function Compared({ first, second, by, onError }: ComparedProps) {
  const url = `/api/runs/${encodeURIComponent(first)}/compared/${encodeURIComponent(second)}?by=${by}`;
  const { value, error } = usePolled<ComparedRuns>(
    url,
    () => ask(url),
    () => null,
  );
  const table = useRef<HTMLTableElement>(null);
  useEffect(() => {
    if (error) onError?.();
  }, [error, onError]);
  if (error && !onError) return <Alert type="error">{error}</Alert>;
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
            <Pair key={`${pair.item} ${pair.input}`} first={first} second={second} pair={pair} />
          ))}
        </tbody>
      </table>
    </>
  );
}

const hasVideo = ({ first, second }: ComparedPair) => [first, second].some((end) => end?.row && isVideo(end.row));

function Pair({ first, second, pair }: { first: string; second: string; pair: ComparedPair }) {
  const words = useMemo(() => difference(pair.first?.answer, pair.second?.answer), [pair]);
  return (
    <tr>
      <th scope="row" className="spoken">
        {pair.item} <Badge>{pair.change}</Badge>
      </th>
      <End run={first} end={pair.first} words={words?.filter((part) => !part.added)} />
      <End run={second} end={pair.second} words={words?.filter((part) => !part.removed)} />
    </tr>
  );
}

// The words of two answers: those of both, those of the first alone (removed), and those of the second alone (added).
function difference(first: string | null | undefined, second: string | null | undefined): Change[] | null {
  if (!first || !second) return null;
  return (
    diffWords(first, second, { maxEditLength: MOST_EDITS }) ?? [
      { value: first, removed: true, added: false, count: 1 },
      { value: second, removed: false, added: true, count: 1 },
    ]
  );
}

const MOST_EDITS = 1000; // words; answers that differ in more are marked whole

interface EndProps {
  run: string;
  end: ComparedEnd | null;
  // The words of its answer, where the other run has an answer too.
  words: Change[] | undefined;
}

// How an item has ended in one of the runs, with what it is about or what was generated, and a link to all of it.
function End({ run, end, words }: EndProps) {
  return (
    <td className="spoken">
      {end?.row && (
        <a className="cell-of-sheet" href={`#/runs/${encodeURIComponent(run)}/item/${end.row.id}`}>
          <Thumbnail row={end.row} />
          {end.row.name}
        </a>
      )}
      <div>{words ? words.map((part, number) => shown(part, number)) : outcome(end)}</div>
    </td>
  );
}

function shown(part: Change, number: number): ReactNode {
  return part.added || part.removed ? <mark key={number}>{part.value}</mark> : part.value;
}

function outcome(end: ComparedEnd | null): ReactNode {
  if (!end) return <span className="faint">not in this run</span>;
  return end.error ? <Badge color="red">{end.error}</Badge> : end.answer;
}

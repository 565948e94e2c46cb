import Badge from "@cloudscape-design/components/badge";
import Box from "@cloudscape-design/components/box";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { memo, useEffect, useState } from "react";
import { count, duration, moment } from "./format";
import { useShortCost } from "./prices";
import type { Row } from "./types";

const POSTER_DELAY = 120; // milliseconds that a row is in view before its poster is asked for

interface DocumentRowProps {
  // Undefined until it was fetched.
  row: Row | undefined;
  base: string;
  index: number;
  isActive: boolean;
  onFocus: (index: number) => void;
  // Null where nothing can be chosen.
  isMarked: boolean | null;
  onMark: (id: number) => void;
}

// One document in the list, with the box that chooses it. Scrolling draws only the rows that come into view.
export const DocumentRow = memo(function DocumentRow(props: DocumentRowProps) {
  const { row, base, index, isActive, onFocus, isMarked, onMark } = props;
  const cost = useShortCost();
  if (!row) return <div className="row waiting" />;
  return (
    <>
      {isMarked !== null && (
        <input
          className="mark"
          type="checkbox"
          aria-label={`Select ${row.name}`}
          checked={isMarked}
          onChange={() => onMark(row.id)}
        />
      )}
      <a
        className="row"
        href={`${base}/item/${row.id}`}
        data-index={index}
        tabIndex={isActive ? 0 : -1}
        onFocus={() => onFocus(index)}
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
          <span className="faint">{[row.variant, ...facts(row, cost)].filter(Boolean).join(" · ")}</span>
          <span className="labels">
            {row.events > 0 && <Badge color="blue">{count(row.events, "event")}</Badge>}
            {row.labels.slice(0, 3).map((label) => (
              <Badge key={label}>{label}</Badge>
            ))}
          </span>
        </div>
      </a>
    </>
  );
});

function facts(row: Row, cost: (amount: number) => string): string[] {
  return [
    row.duration === null ? "" : duration(row.duration),
    row.dollars === null ? "" : cost(row.dollars),
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
      {(!url || broken) && <Box color="text-body-secondary">no picture</Box>}
    </span>
  );
}

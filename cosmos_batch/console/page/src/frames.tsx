import ExpandableSection from "@cloudscape-design/components/expandable-section";
import { useState } from "react";
import { clock, count } from "./format";
import type { FrameSheet, Media } from "./types";

const SIDE = 112; // pixels of a frame's longer side
const SHOWN = 1024;

interface FrameStripProps {
  times: number[];
  sheet: FrameSheet | null;
  media: Media;
  time: number;
  onSeek: (seconds: number) => void;
}

// The frames that the model saw: what lies between their times, it did not see.
export function FrameStrip({ times, sheet, media, time, onSeek }: FrameStripProps) {
  const [open, setOpen] = useState(false);
  if (times.length === 0) return null;
  const every = times.length > 1 ? ((times.at(-1) ?? 0) - (times[0] ?? 0)) / (times.length - 1) : 0;
  const current = times.findLastIndex((one) => one <= time + 0.001);
  return (
    <ExpandableSection
      headerText={`The model saw ${count(times.length, "frame")}${every ? `, one every ${every.toFixed(2)} s` : ""}`}
      expanded={open}
      onChange={({ detail }) => setOpen(detail.expanded)}
    >
      {open && (
        <ol className="frames">
          {times.slice(0, SHOWN).map((seconds, number) => (
            <li key={number}>
              <button
                type="button"
                aria-current={number === current ? "time" : undefined}
                onClick={() => onSeek(seconds)}
              >
                {sheet && number < sheet.count && <Cell sheet={sheet} media={media} number={number} />}
                {clock(seconds)}
              </button>
            </li>
          ))}
        </ol>
      )}
    </ExpandableSection>
  );
}

// One cell of the picture of all frames.
function Cell({ sheet, media, number }: { sheet: FrameSheet; media: Media; number: number }) {
  const [shape, setShape] = useState(media.width && media.height ? media.width / media.height : 1);
  const width = shape >= 1 ? SIDE : SIDE * shape;
  const height = shape >= 1 ? SIDE / shape : SIDE;
  const rows = Math.ceil(sheet.count / sheet.columns);
  return (
    <span className="cell" style={{ width, height }}>
      <img
        src={sheet.url}
        alt=""
        style={{
          width: width * sheet.columns,
          height: height * rows,
          left: -width * (number % sheet.columns),
          top: -height * Math.floor(number / sheet.columns),
        }}
        onLoad={(event) => {
          const image = event.currentTarget;
          setShape(image.naturalWidth / sheet.columns / (image.naturalHeight / rows));
        }}
      />
    </span>
  );
}

import Box from "@cloudscape-design/components/box";
import { clock } from "./format";
import type { EventMark } from "./types";

// Seconds for which a frame may be shown: an event that begins meanwhile is in it.
const FRAME = 0.1;

interface TimelineProps {
  events: EventMark[];
  length: number;
  time: number;
  onSeek: (seconds: number) => void;
}

// The events of an answer, each a bar at its time, which seeks when it is clicked.
export function Timeline({ events, length, time, onSeek }: TimelineProps) {
  if (events.length === 0) return null;
  const end = Math.max(length, ...events.map((event) => event.span.end));
  const share = (seconds: number) => `${end > 0 ? (100 * seconds) / end : 0}%`;
  return (
    <section aria-label="Events" className="timeline">
      <Box variant="awsui-key-label">Events</Box>
      <ol>
        <div className="playhead" style={{ left: share(Math.min(time, end)) }} aria-hidden="true" />
        {events.map((event, number) => {
          const isNow = event.span.start <= time + FRAME && time < event.span.end;
          return (
            <li key={number}>
              <button
                type="button"
                className="event"
                aria-current={isNow ? "time" : undefined}
                onClick={() => onSeek(event.span.start)}
              >
                <span
                  className="span"
                  style={{ left: share(event.span.start), width: share(event.span.end - event.span.start) }}
                />
                <span className="caption">
                  <span className="times">
                    {clock(event.span.start)} to {clock(event.span.end)}
                  </span>{" "}
                  {event.caption}
                </span>
              </button>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

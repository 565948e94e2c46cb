import { type RefObject, useEffect, useState } from "react";
import type { BoxMark, PointMark, Span } from "./types";

// A mark of a single moment is shown for this long before and after it, in seconds.
const MOMENT = 0.5;
const COLORS = ["#ff7f0e", "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#e377c2", "#17becf", "#bcbd22"];
const LABEL_LENGTH = 60;

export interface Marks {
  boxes: BoxMark[];
  points: PointMark[];
}

// Where the picture itself is within an element, in CSS pixels.
export interface ContentBox {
  left: number;
  top: number;
  width: number;
  height: number;
}

// An element letterboxes its picture (object-fit: contain). Width and height that the browser reports for it are those
// on the screen: after rotation, and with square pixels.
export function useContentBox(element: RefObject<HTMLVideoElement | HTMLImageElement | null>): ContentBox | null {
  const [box, setBox] = useState<ContentBox | null>(null);
  useEffect(() => {
    const shown = element.current;
    if (!shown) return;
    const measure = () => setBox(contentBox(shown));
    const observer = new ResizeObserver(measure);
    observer.observe(shown);
    const events = ["load", "loadedmetadata", "resize"];
    events.forEach((event) => shown.addEventListener(event, measure));
    measure();
    return () => {
      observer.disconnect();
      events.forEach((event) => shown.removeEventListener(event, measure));
    };
  }, [element]);
  return box;
}

function contentBox(shown: HTMLVideoElement | HTMLImageElement): ContentBox | null {
  const [width, height] =
    shown instanceof HTMLVideoElement
      ? [shown.videoWidth, shown.videoHeight]
      : [shown.naturalWidth, shown.naturalHeight];
  if (!width || !height) return null;
  const scale = Math.min(shown.clientWidth / width, shown.clientHeight / height);
  return {
    left: shown.offsetLeft + (shown.clientWidth - width * scale) / 2,
    top: shown.offsetTop + (shown.clientHeight - height * scale) / 2,
    width: width * scale,
    height: height * scale,
  };
}

// Draws the boxes and points that hold at a time; of an image (time is null), all.
export function Overlay({ marks, time, box }: { marks: Marks; time: number | null; box: ContentBox | null }) {
  if (!box) return null;
  const colors = colorOfLabels(marks);
  const boxes = marks.boxes.filter((one) => holds(one.span, time));
  const points = marks.points.filter((one) => holds(one.span, time));
  return (
    <svg className="overlay" style={{ ...box }} viewBox={`0 0 ${box.width} ${box.height}`} aria-hidden="true">
      <filter id="behind-label" x="-3%" width="106%" y="0" height="100%">
        <feFlood floodColor="#000" floodOpacity="0.7" />
        <feComposite in="SourceGraphic" />
      </filter>
      {boxes.map((one, number) => (
        <g key={number} color={colors.get(one.label)}>
          <rect
            className="box"
            x={one.left * box.width}
            y={one.top * box.height}
            width={(one.right - one.left) * box.width}
            height={(one.bottom - one.top) * box.height}
          />
          <Label text={one.label} x={one.left * box.width} y={one.top * box.height} />
        </g>
      ))}
      {points.map((one, number) => (
        <g key={number} color={colors.get(one.label)}>
          <circle className="point" cx={one.x * box.width} cy={one.y * box.height} r={5} />
          <Label text={one.label} x={one.x * box.width + 8} y={one.y * box.height} />
        </g>
      ))}
    </svg>
  );
}

function Label({ text, x, y }: { text: string; x: number; y: number }) {
  if (!text) return null;
  const shown = text.length > LABEL_LENGTH ? `${text.slice(0, LABEL_LENGTH - 1)}…` : text;
  // Above its box, or in it where the picture ends.
  return (
    <text className="label" filter="url(#behind-label)" x={x + 2} y={y > 18 ? y - 5 : y + 15}>
      {shown}
    </text>
  );
}

export function holds(span: Span | null, time: number | null): boolean {
  if (!span || time === null) return true;
  const tolerance = span.end > span.start ? 0 : MOMENT;
  return span.start - tolerance <= time && time <= span.end + tolerance;
}

function colorOfLabels(marks: Marks): Map<string, string> {
  const labels = new Set([...marks.boxes, ...marks.points].map((mark) => mark.label));
  return new Map([...labels].map((label, number) => [label, COLORS[number % COLORS.length] ?? "#ff7f0e"]));
}

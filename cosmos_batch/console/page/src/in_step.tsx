import Button from "@cloudscape-design/components/button";
import { type RefObject, useEffect, useState } from "react";
import type { Row } from "./types";

const DRIFT = 0.1; // seconds by which a video may be away from the others
const LOOK = 500; // milliseconds between two looks at that

// Plays all videos of a table together, and keeps them at the time of the first of them.
export function PlayInStep({ table }: { table: RefObject<HTMLTableElement | null> }) {
  const all = () => [...(table.current?.querySelectorAll("video") ?? [])];
  useEffect(() => {
    const timer = setInterval(() => {
      const [first, ...others] = table.current?.querySelectorAll("video") ?? [];
      if (!first || first.paused) return;
      for (const video of others) {
        if (Math.abs(video.currentTime - first.currentTime) > DRIFT) video.currentTime = first.currentTime;
      }
    }, LOOK);
    return () => clearInterval(timer);
  }, [table]);
  const rewind = () =>
    all().forEach((video) => {
      video.currentTime = 0;
    });
  return (
    <div className="run-line">
      <Button onClick={() => all().forEach((video) => void video.play())}>Play all</Button>
      <Button onClick={() => all().forEach((video) => video.pause())}>Pause all</Button>
      <Button onClick={rewind}>To the beginning</Button>
    </div>
  );
}

// The video that was generated, or a small picture of what a row is about, if one can be shown.
export function Thumbnail({ row }: { row: Row }) {
  const [broken, setBroken] = useState(false);
  if (isVideo(row) && row.media)
    return <video src={row.media} muted loop playsInline preload="metadata" aria-label={`Video ${row.name}`} />;
  return row.poster && !broken ? <img src={row.poster} alt={row.name} onError={() => setBroken(true)} /> : null;
}

export function isVideo(row: Row): boolean {
  return row.kind === "generation" && row.media !== null && !/\.(png|jpe?g)$/i.test(row.name);
}

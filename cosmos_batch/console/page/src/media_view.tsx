import Alert from "@cloudscape-design/components/alert";
import SegmentedControl from "@cloudscape-design/components/segmented-control";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useRef, useState } from "react";
import { FrameStrip } from "./frames";
import { Picture, Player, type PlayerHandle } from "./player";
import type { Source } from "./source";
import { Timeline } from "./timeline";
import type { Detail, Media } from "./types";

// The media of a document: one of them large, and below it what happens when.
export function MediaView({ source, detail }: { source: Source; detail: Detail }) {
  const shown = detail.media.flatMap((media, number) => (media.present && media.medium ? [{ media, number }] : []));
  const [chosen, setChosen] = useState(shown[0]?.number ?? -1);
  const [time, setTime] = useState(0);
  const [length, setLength] = useState(0);
  const player = useRef<PlayerHandle>(null);
  const media = detail.media[chosen];
  const firstVideo = detail.media.findIndex((one) => one.medium === "video");
  const seconds = length || media?.seconds || 0;
  const seek = (to: number) => player.current?.seek(to);
  // The answer is about the first file; of a video and images, its times are about the video.
  const isMarked = chosen === (firstVideo === -1 ? 0 : firstVideo);
  const marks = isMarked ? { boxes: detail.boxes, points: detail.points } : { boxes: [], points: [] };

  return (
    <div className="media">
      <SpaceBetween size="s">
        {shown.length > 1 && (
          <SegmentedControl
            label="Media"
            selectedId={String(chosen)}
            options={shown.map((one) => ({ id: String(one.number), text: one.media.name }))}
            onChange={({ detail: change }) => setChosen(Number(change.selectedId))}
          />
        )}
        {media?.medium === "video" && (
          <Player
            key={chosen}
            ref={player}
            source={source}
            media={media}
            marks={marks}
            onTime={setTime}
            onLength={setLength}
          />
        )}
        {media?.medium === "image" && <Picture key={chosen} media={media} marks={marks} />}
        {detail.media.map((one) => (
          <Trouble key={`${one.role} ${one.name}`} media={one} />
        ))}
        {media?.medium === "video" && isMarked && (
          <>
            <Timeline events={detail.events} length={seconds} time={time} onSeek={seek} />
            <FrameStrip times={detail.frameTimes} sheet={detail.frameSheet} media={media} time={time} onSeek={seek} />
          </>
        )}
      </SpaceBetween>
    </div>
  );
}

function Trouble({ media }: { media: Media }) {
  if (media.problem) {
    return (
      <Alert type="warning" header={media.name}>
        {media.problem}
      </Alert>
    );
  }
  if (media.leftOut) {
    return (
      <Alert type="info" header={media.name}>
        {media.leftOut}
      </Alert>
    );
  }
  if (media.present) return null;
  return (
    <Alert type="info">
      <span className="spoken">{media.name}</span> is not here, so it cannot be shown.
    </Alert>
  );
}

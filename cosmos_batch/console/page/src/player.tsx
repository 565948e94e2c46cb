import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ProgressBar from "@cloudscape-design/components/progress-bar";
import { type Ref, useEffect, useImperativeHandle, useRef, useState } from "react";
import { type Marks, Overlay, useContentBox } from "./overlay";
import type { Source } from "./source";
import type { Media } from "./types";

const POLL = 500; // milliseconds, while a preview is made
// A player that seeks to a frame's exact time may show the one before it.
const INTO_FRAME = 0.001; // seconds

export interface PlayerHandle {
  // Show the frame at a time in seconds from the first frame.
  seek(seconds: number): void;
}

interface PlayerProps {
  ref: Ref<PlayerHandle>;
  source: Source;
  media: Media;
  marks: Marks;
  onTime: (seconds: number) => void;
  onLength: (seconds: number) => void;
}

// Plays a video, or offers to convert it where the browser cannot play it.
export function Player({ ref, source, media, marks, onTime, onLength }: PlayerProps) {
  const [converted, setConverted] = useState<string | null>(null);
  const [refused, setRefused] = useState(false);
  const url = converted ?? (refused ? null : media.url);
  const label = media.previewReason ?? "this browser does not play it";
  const isConverted = converted !== null || (media.url !== null && media.previewReason !== null);
  if (url === null) {
    return <Conversion source={source} media={media} reason={label} onReady={setConverted} />;
  }
  return (
    <div>
      <Video
        ref={ref}
        url={url}
        name={media.name}
        offset={isConverted ? 0 : media.offset}
        marks={marks}
        onTime={onTime}
        onLength={onLength}
        onRefused={() => setRefused(true)}
      />
      {isConverted && (
        <Box variant="small">
          Preview, converted without sound because {label}. The times are those of the original.
        </Box>
      )}
    </div>
  );
}

interface VideoProps {
  ref: Ref<PlayerHandle>;
  url: string;
  name: string;
  offset: number;
  marks: Marks;
  onTime: (seconds: number) => void;
  onLength: (seconds: number) => void;
  onRefused: () => void;
}

function Video({ ref, url, name, offset, marks, onTime, onLength, onRefused }: VideoProps) {
  const video = useRef<HTMLVideoElement>(null);
  const [time, setTime] = useState(0);
  const box = useContentBox(video);
  useImperativeHandle(ref, () => ({
    seek: (seconds) => {
      if (video.current) video.current.currentTime = seconds + offset + INTO_FRAME;
    },
  }));
  useEffect(() => {
    const element = video.current;
    if (!element) return;
    let handle = 0;
    // Called for each frame on the screen, with its own time: boxes belong to the frame that is seen.
    const follow = (_: number, frame: VideoFrameCallbackMetadata) => {
      const seconds = Math.max(0, frame.mediaTime - offset);
      setTime(seconds);
      onTime(seconds);
      handle = element.requestVideoFrameCallback(follow);
    };
    handle = element.requestVideoFrameCallback(follow);
    return () => element.cancelVideoFrameCallback(handle);
  }, [url, offset, onTime]);
  return (
    <div className="stage">
      {/* No poster: it is a later frame than the first one, on which the boxes belong that are drawn at first. The clips
          have no captions: what there is about them is in the answer. */}
      <video
        ref={video}
        src={url}
        controls
        preload="auto"
        aria-label={`Video ${name}`}
        onLoadedMetadata={(event) => onLength(event.currentTarget.duration - offset)}
        onError={onRefused}
      />
      <Overlay marks={marks} time={time} box={box} />
    </div>
  );
}

interface ConversionProps {
  source: Source;
  media: Media;
  reason: string;
  onReady: (url: string) => void;
}

function Conversion({ source, media, reason, onReady }: ConversionProps) {
  const [started, setStarted] = useState(false);
  const [share, setShare] = useState(0);
  const [broken, setBroken] = useState(false);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    if (!started || !media.preview) return;
    let timer: ReturnType<typeof setTimeout>;
    let ended = false;
    const url = media.preview;
    const poll = async () => {
      try {
        const preview = await source.preview(url);
        if (ended) return;
        setShare(preview.share);
        if (preview.state === "ready" && preview.url) onReady(preview.url);
        else if (preview.state === "failed") setError(preview.error);
        else timer = setTimeout(poll, POLL);
      } catch (caught) {
        if (!ended) setError(caught instanceof Error ? caught.message : String(caught));
      }
    };
    void poll();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [started, media.preview, source, onReady]);
  return (
    <div>
      <div className="stage">
        {media.poster && !broken && (
          <img src={media.poster} alt={`A frame of ${media.name}`} onError={() => setBroken(true)} />
        )}
      </div>
      {error && <Alert type="error">{error}</Alert>}
      {!error && started && <ProgressBar label="Converting" value={Math.round(share * 100)} />}
      {!error && !started && media.preview && (
        <Button onClick={() => setStarted(true)}>Convert to play it here</Button>
      )}
      {!started && !media.leftOut && <Box variant="small">Cannot be played as it is: {reason}.</Box>}
    </div>
  );
}

export function Picture({ media, marks }: { media: Media; marks: Marks }) {
  const image = useRef<HTMLImageElement>(null);
  const box = useContentBox(image);
  const url = media.url ?? media.poster;
  return (
    <div>
      <div className="stage">
        {url && <img ref={image} src={url} alt={media.name} />}
        <Overlay marks={marks} time={null} box={box} />
      </div>
      {media.previewReason && !media.leftOut && <Box variant="small">Converted, because {media.previewReason}.</Box>}
    </div>
  );
}

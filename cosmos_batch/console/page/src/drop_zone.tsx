import Button from "@cloudscape-design/components/button";
import { type DragEvent, useRef, useState } from "react";
import { ask, messageOf } from "./api";
import { count, size } from "./format";
import type { Dropped } from "./types";

interface DropZoneProps {
  dropped: Dropped | null;
  // Takes the folder of all files so far; null for none.
  onDropped: (dropped: Dropped | null) => void;
  // Says when files begin to be copied, and when all are.
  onBusy: (busy: boolean) => void;
  onProblem: (problem: string | null) => void;
}

// Takes files that are dropped or chosen. They go to the console on this machine, and to S3 when the run starts.
export function DropZone({ dropped, onDropped, onBusy, onProblem }: DropZoneProps) {
  const [left, setLeft] = useState(0);
  const [names, setNames] = useState<string[]>([]);
  const [repeated, setRepeated] = useState<string[]>([]);
  const [over, setOver] = useState(false);
  const folder = useRef<string | null>(null);
  // Files that are dropped while others are copied wait for these: all go into one folder.
  const copies = useRef(Promise.resolve());
  const waiting = useRef(0);
  const countWaiting = (more: number) => {
    waiting.current += more;
    setLeft(waiting.current);
    onBusy(waiting.current > 0);
  };
  const copy = async (file: File) => {
    const values = new URLSearchParams({ name: file.name });
    if (folder.current) values.set("folder", folder.current);
    try {
      const answer = await ask<Dropped>(`/api/dropped?${values}`, { method: "POST", body: file });
      folder.current = answer.folder;
      onDropped(answer);
      if (answer.isNew) setNames((before) => [...before, file.name]);
      else setRepeated((before) => [...before, file.name]);
    } catch (caught) {
      onProblem(`${file.name}: ${messageOf(caught)}`);
    }
    countWaiting(-1);
  };
  const take = (files: File[]) => {
    if (waiting.current === 0) onProblem(null);
    countWaiting(files.length);
    for (const file of files) copies.current = copies.current.then(() => copy(file));
  };
  const clear = () => {
    folder.current = null;
    setNames([]);
    setRepeated([]);
    onDropped(null);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    take([...event.dataTransfer.files]);
  };
  return (
    <div
      className={over ? "drop over" : "drop"}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <label>
        Drop videos and images here, or choose them:{" "}
        <input
          type="file"
          multiple
          accept="video/*,image/*,.mkv,.heic"
          onChange={(event) => {
            take([...(event.target.files ?? [])]);
            event.target.value = ""; // so that the same file can be chosen once more
          }}
        />
      </label>
      <span role="status">
        {dropped && `${count(dropped.files, "file")}, ${size(dropped.bytes)}: ${named(names)}`}
        {left > 0 && `; ${left.toLocaleString("en")} to come`}
        {repeated.length > 0 && `; dropped before, and asked about once: ${named(repeated)}`}
      </span>
      {dropped && left === 0 && (
        <Button variant="inline-link" onClick={clear}>
          Remove all
        </Button>
      )}
    </div>
  );
}

const NAMED = 10;

function named(names: string[]): string {
  const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : "";
  return names.slice(0, NAMED).join(", ") + more;
}

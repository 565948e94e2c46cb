import { type DragEvent, useRef, useState } from "react";
import { ask, messageOf } from "./api";
import { count, size } from "./format";
import type { Dropped } from "./types";

interface DropZoneProps {
  dropped: Dropped | null;
  onDropped: (dropped: Dropped) => void;
  onProblem: (problem: string | null) => void;
}

// Takes files that are dropped or chosen. They go to the console on this machine, and to S3 when the run starts.
export function DropZone({ dropped, onDropped, onProblem }: DropZoneProps) {
  const [left, setLeft] = useState(0);
  const [names, setNames] = useState<string[]>([]);
  const [over, setOver] = useState(false);
  const folder = useRef<string | null>(null);
  const take = async (files: File[]) => {
    onProblem(null);
    setLeft(files.length);
    try {
      for (const file of files) {
        const values = new URLSearchParams({ name: file.name });
        if (folder.current) values.set("folder", folder.current);
        const found = await ask<Dropped>(`/api/dropped?${values}`, { method: "POST", body: file });
        folder.current = found.folder;
        onDropped(found);
        setNames((before) => [...new Set([...before, file.name])]);
        setLeft((before) => before - 1);
      }
    } catch (caught) {
      onProblem(messageOf(caught));
    }
    setLeft(0);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    void take([...event.dataTransfer.files]);
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
          onChange={(event) => void take([...(event.target.files ?? [])])}
        />
      </label>
      <span role="status">
        {dropped && `${count(dropped.files, "file")}, ${size(dropped.bytes)}: ${named(names)}`}
        {left > 0 && `; ${left} to come`}
      </span>
    </div>
  );
}

const NAMED = 10;

function named(names: string[]): string {
  const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : "";
  return names.slice(0, NAMED).join(", ") + more;
}

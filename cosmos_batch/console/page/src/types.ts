// What the page receives: the models of cosmos_batch/console/records.py.

export type Sort = "newest" | "oldest" | "name" | "model";
export type Status = "" | "succeeded" | "failed";

export interface Row {
  id: number;
  kind: "answer" | "generation" | "error";
  name: string;
  prompt: string;
  answer: string;
  timestamp: string;
  model: string;
  pipeline: string;
  errorCode: string | null;
  labels: string[];
  events: number;
  poster: string | null;
}

export interface Query {
  search: string;
  status: Status;
  errorCode: string;
  model: string;
  label: string;
  sort: Sort;
}

export interface Rows {
  total: number;
  version: number;
  rows: Row[];
}

export interface Facet {
  value: string;
  count: number;
}

export interface State {
  title: string;
  found: number;
  lookedAt: number;
  documents: number;
  done: boolean;
  problem: string | null;
  succeeded: number;
  failed: number;
  errorCodes: Facet[];
  models: Facet[];
  labels: Facet[];
  exported: boolean;
}

export interface Span {
  start: number;
  end: number;
}

export interface BoxMark {
  left: number;
  top: number;
  right: number;
  bottom: number;
  label: string;
  span: Span | null;
}

export interface PointMark {
  x: number;
  y: number;
  label: string;
  span: Span | null;
}

export interface EventMark {
  span: Span;
  caption: string;
}

export interface Media {
  role: string;
  name: string;
  found: boolean;
  medium: "video" | "image" | null;
  width: number;
  height: number;
  seconds: number;
  codec: string;
  offset: number;
  url: string | null;
  preview: string | null;
  previewReason: string | null;
  poster: string | null;
  problem: string | null;
}

export interface FrameSheet {
  url: string;
  columns: number;
  count: number;
}

export interface Detail {
  row: Row;
  path: string;
  prompt: string;
  answer: string;
  reasoning: string | null;
  error: { code: string; message: string; remedy: string; retryable: boolean } | null;
  notes: string[];
  media: Media[];
  boxes: BoxMark[];
  points: PointMark[];
  events: EventMark[];
  frameTimes: number[];
  frameSheet: FrameSheet | null;
  timings: Record<string, number>;
  document: unknown;
}

export interface Preview {
  state: "running" | "ready" | "failed";
  share: number;
  url: string | null;
  error: string | null;
}

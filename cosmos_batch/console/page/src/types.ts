// What the page receives and sends: the models of cosmos_batch/console, by their names there.

export type Sort = "newest" | "oldest" | "name" | "model" | "slowest" | "dearest" | "score";
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
  remedy: string | null;
  item: string;
  variant: string;
  duration: number | null;
  dollars: number | null;
  score: number | null;
  poster: string | null;
  media: string | null;
}

export interface Query {
  search: string;
  status: Status;
  errorCode: string;
  model: string;
  label: string;
  minSeconds: number | null;
  maxSeconds: number | null;
  minScore: number | null;
  maxScore: number | null;
  sort: Sort;
}

export const EVERYTHING: Query = {
  search: "",
  status: "",
  errorCode: "",
  model: "",
  label: "",
  minSeconds: null,
  maxSeconds: null,
  minScore: null,
  maxScore: null,
  sort: "newest",
};

export interface Rows {
  total: number;
  exact: boolean;
  version: number;
  rows: Row[];
}

export interface Facet {
  value: string;
  count: number;
}

export interface State {
  title: string;
  jsonFiles: number;
  readFiles: number;
  documents: number;
  version: number;
  done: boolean;
  grows: boolean;
  problem: string | null;
  succeeded: number;
  failed: number;
  errorCodes: Facet[];
  models: Facet[];
  labels: Facet[];
  failures: FailureGroup[];
  scored: boolean;
  varied: boolean;
  isLocal: boolean;
  exported: boolean;
}

export interface FailureGroup {
  code: string;
  count: number;
  example: string;
  message: string;
  remedy: string;
}

export interface Home {
  view: string;
  hasRuns: boolean;
  isLocal: boolean;
}

// Documents that a person has chosen: by their numbers, or what a query finds without those that are left out.
export interface ChosenDocuments {
  items: number[] | null;
  query: Query | null;
  leftOut: number[];
}

export interface ExportRequest {
  selection: ChosenDocuments;
  media: boolean;
}

export interface MediaSize {
  files: number;
  bytes: number;
}

export interface ExportMade {
  url: string;
  documents: number;
  bytes: number;
}

export type Action = "cancel" | "resume" | "retry";

export interface RunLine {
  id: string;
  state: string;
  over: boolean;
  pipelines: string[];
  origin: string;
  startedAt: string | null;
  endedAt: string | null;
  items: number;
  succeeded: number;
  failed: number;
  cancelled: number;
  reused: number;
  inFlight: number;
  waiting: number;
  gpuSeconds: number;
  dollars: number;
  maxDollars: number | null;
  reason: string | null;
}

export interface RunList {
  runs: RunLine[];
  hasMore: boolean;
}

export interface WorkerLine {
  id: string;
  pipeline: string;
  doing: string;
  since: string | null;
  completed: number;
}

export interface Blocker {
  pipeline: string;
  code: string;
  message: string;
  remedy: string;
  nextTry: string;
}

export interface RunActivity {
  itemsPerSecond: number;
  secondsLeft: number | null;
  workers: WorkerLine[];
  blockers: Blocker[];
  waits: string[];
}

export interface RunOverview {
  run: RunLine;
  prompt: string;
  quantiles: Record<string, number>;
  actions: Action[];
  live: RunActivity | null;
}

export interface RetrySize {
  items: number;
}

export interface Started {
  run: string;
  items: number;
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
  present: boolean;
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
  leftOut: string | null;
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
  task: string;
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
  gpuSeconds: number | null;
  dollars: number | null;
  reused: boolean;
  document: unknown;
}

export interface Preview {
  state: "running" | "ready" | "failed";
  share: number;
  url: string | null;
  error: string | null;
}

export interface FormField {
  name: string;
  kind: "number" | "integer" | "integers" | "text" | "choice" | "switch" | "file" | "group";
  help: string;
  choices: string[];
  fields: FormField[];
  minimum: number | null;
  maximum: number | null;
}

export interface PipelineChoice {
  id: string;
  model: string;
  surface: "reasoner" | "generator";
}

export interface TaskChoice {
  name: string;
  example: string;
  medium: string | null;
}

export interface NewRunForm {
  pipelines: PipelineChoice[];
  tasks: TaskChoice[];
  fields: Record<string, FormField[]>;
  roots: string[];
}

export interface Prefix {
  uri: string;
  prefixes: string[];
  files: number;
  hasMore: boolean;
}

export interface PlanShown {
  id: string;
  lines: string[];
  dollars: number;
  items: number;
  command: string;
  findings: string[];
}

export interface Dropped {
  folder: string;
  files: number;
  bytes: number;
  isNew: boolean;
}

export interface ComparedEnd {
  item: string;
  answer: string | null;
  error: string | null;
  row: Row | null;
}

export interface ComparedPair {
  item: string;
  input: string;
  change: string;
  first: ComparedEnd | null;
  second: ComparedEnd | null;
}

export interface ComparedRuns {
  counts: Record<string, number>;
  agreement: number | null;
  pairs: ComparedPair[];
}

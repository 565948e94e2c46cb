import Alert from "@cloudscape-design/components/alert";
import Badge from "@cloudscape-design/components/badge";
import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Spinner from "@cloudscape-design/components/spinner";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useEffect, useState } from "react";
import { clock, dollars, duration, moment } from "./format";
import { ItemLog } from "./item_log";
import { MediaView } from "./media_view";
import { useCost } from "./prices";
import type { Source } from "./source";
import { Timings } from "./timings";
import type { Detail, Media } from "./types";

export function ItemPage({ source, base, id }: { source: Source; base: string; id: number }) {
  const [detail, setDetail] = useState<Detail | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    source.detail(id).then(setDetail, (caught: unknown) =>
      setError(caught instanceof Error ? caught.message : String(caught)),
    );
  }, [source, id]);
  useEffect(() => {
    const leave = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !document.fullscreenElement) location.hash = home(base);
    };
    addEventListener("keydown", leave);
    return () => removeEventListener("keydown", leave);
  }, [base]);
  return (
    <div className="item">
      <nav aria-label="Back">
        <a href={home(base)}>← All documents</a>
      </nav>
      {error && <Alert type="error">{error}</Alert>}
      {!detail && !error && <Spinner size="large" />}
      {detail && <Item source={source} detail={detail} />}
    </div>
  );
}

// The hash of the collection; `#/` of a folder.
const home = (base: string) => (base === "#" ? "#/" : base);

function Item({ source, detail }: { source: Source; detail: Detail }) {
  const { row, prompt, task } = detail;
  const input = inputOf(detail.document);
  return (
    <>
      <Header variant="h1" description={[row.item ? "" : detail.path, moment(row.timestamp)].filter(Boolean).join(" · ")}>
        {row.name}
      </Header>
      <div className="columns">
        <MediaView source={source} detail={detail} />
        <div className="words">
          <SpaceBetween size="m">
            <Outcome detail={detail} />
            <Facts detail={detail} />
            {Object.keys(detail.timings).length > 0 && <Timings timings={detail.timings} />}
          </SpaceBetween>
        </div>
      </div>
      {source.log && (
        <div className="actions-of-item">
          <ItemLog url={source.log(row.id)} />
          <a href={`#/new?${new URLSearchParams({ source: input, prompt, task, pipeline: row.pipeline })}`}>
            Ask again with another prompt or model
          </a>
        </div>
      )}
      <ExpandableSection headerText="Document" variant="container">
        <pre className="document" tabIndex={0} aria-label="Document as JSON">
          {JSON.stringify(detail.document, null, 2)}
        </pre>
      </ExpandableSection>
    </>
  );
}

// The file in S3 that an item is about; empty for a generation from its prompt alone.
function inputOf(document: unknown): string {
  const { input, inputUri } = document as { input?: unknown; inputUri?: unknown };
  const uri = inputUri ?? (typeof input === "object" ? (input as { uri?: unknown } | null)?.uri : input);
  return typeof uri === "string" && uri.startsWith("s3://") ? uri : "";
}

function Outcome({ detail }: { detail: Detail }) {
  const { error } = detail;
  return (
    <Container>
      <SpaceBetween size="s">
        {detail.task && (
          <div>
            <Box variant="awsui-key-label">Task</Box>
            <div className="spoken">{detail.task}</div>
          </div>
        )}
        {detail.prompt && (
          <div>
            <Box variant="awsui-key-label">Prompt</Box>
            <div className="spoken">{detail.prompt}</div>
          </div>
        )}
        {detail.reasoning && (
          <ExpandableSection headerText="Reasoning">
            <div className="spoken">{detail.reasoning}</div>
          </ExpandableSection>
        )}
        {error && (
          <Alert type="error" header={error.code}>
            <div className="spoken">{error.message}</div>
            <div className="spoken">{error.remedy}</div>
          </Alert>
        )}
        {!error && detail.answer && (
          <div>
            <Box variant="awsui-key-label">Answer</Box>
            <div className="spoken answered">{detail.answer}</div>
          </div>
        )}
        {detail.notes.map((note) => (
          <StatusIndicator key={note} type="info">
            {note}
          </StatusIndicator>
        ))}
      </SpaceBetween>
    </Container>
  );
}

function Facts({ detail }: { detail: Detail }) {
  const { row } = detail;
  const inWords = useCost();
  const facts: [string, string][] = [
    ["Model", row.model],
    ["Pipeline", row.pipeline],
    ["Item", row.item],
    ["Variant", row.variant],
    ["Took", row.duration === null ? "" : duration(row.duration)],
    ["Cost", cost(detail, inWords)],
    ...detail.media.map((media): [string, string] => [roleOf(media), describe(media)]),
  ];
  return (
    <Container>
      <SpaceBetween size="s">
        <KeyValuePairs
          columns={2}
          items={facts.filter(([, value]) => value).map(([label, value]) => ({ label, value }))}
        />
        {row.labels.length > 0 && (
          <div className="labels" aria-label="Labels" role="group">
            {row.labels.map((label) => (
              <Badge key={label}>{label}</Badge>
            ))}
          </div>
        )}
      </SpaceBetween>
    </Container>
  );
}

function cost(detail: Detail, inWords: (spent: string) => string): string {
  if (detail.reused) return "nothing: an earlier run has answered it";
  if (detail.dollars === null) return "";
  return inWords(`${dollars(detail.dollars)} for ${(detail.gpuSeconds ?? 0).toFixed(2)} GPU-seconds`);
}

export function roleOf(media: Media): string {
  if (media.role === "input") return "Input";
  return media.role === "video" ? "Video" : "Image";
}

function describe(media: Media): string {
  if (!media.present) return `${media.name} (not here)`;
  const parts = [media.name];
  if (media.width) parts.push(`${media.width} × ${media.height}`);
  if (media.codec) parts.push(media.codec);
  if (media.seconds) parts.push(clock(media.seconds));
  return parts.join(" · ");
}

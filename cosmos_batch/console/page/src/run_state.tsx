import StatusIndicator, { type StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";
import type { RunLine } from "./types";

const TYPES: Record<string, StatusIndicatorProps.Type> = {
  SUCCEEDED: "success",
  FAILED: "error",
  CANCELLED: "stopped",
  HELD: "warning",
  "NOT BEGUN": "pending",
};

export function StateBadge({ run }: { run: RunLine }) {
  const type = TYPES[run.state.split(",")[0] ?? ""] ?? "in-progress";
  return <StatusIndicator type={run.state === "SUCCEEDED" && run.failed ? "warning" : type}>{run.state}</StatusIndicator>;
}

// A bar with the shares of items that are answered, have failed, and are in flight.
export function ProgressStrip({ run }: { run: RunLine }) {
  const done = run.succeeded + run.failed + run.cancelled;
  const share = (number: number) => `${run.items ? (100 * number) / run.items : 0}%`;
  return (
    <div className="progress">
      <div
        className="strip"
        role="progressbar"
        aria-label={`Progress of ${run.id}`}
        aria-valuemin={0}
        aria-valuemax={run.items}
        aria-valuenow={done}
      >
        <span className="succeeded" style={{ width: share(run.succeeded) }} />
        <span className="failed" style={{ width: share(run.failed + run.cancelled) }} />
        <span className="flying" style={{ width: share(run.inFlight) }} />
      </div>
      <span>
        {done.toLocaleString("en")} of {run.items.toLocaleString("en")}
      </span>
    </div>
  );
}

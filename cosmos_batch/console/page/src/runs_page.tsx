import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import { useContext, useEffect, useState } from "react";
import { ask, usePolled } from "./api";
import { Waiting } from "./app";
import { dollars, utc } from "./format";
import { IsLocal } from "./prices";
import { ProgressStrip, StateBadge } from "./run_state";
import type { RunLine, RunList } from "./types";

const PAGE = 50; // runs
const GOING_ON = 2000; // milliseconds between two looks, while a run goes on
const QUIET = 15000;

// All runs of the deployment.
export function RunsPage({ onTitle }: { onTitle: (title: string) => void }) {
  const [limit, setLimit] = useState(PAGE);
  const isLocal = useContext(IsLocal);
  const { value, error } = usePolled<RunList>(
    `runs ${limit}`,
    () => ask(`/api/runs?limit=${limit}`),
    (latest) => (latest.runs.some((run) => !run.over) ? GOING_ON : QUIET),
  );
  useEffect(() => onTitle(""), [onTitle]);
  return (
    <div className="scrolled">
      <h2>Runs</h2>
      {error && <Alert type="error">{error}</Alert>}
      {!value && !error && <Waiting />}
      {value?.runs.length === 0 && (
        <p>
          No run was ever started here. <a href="#/new">Ask about videos and images</a>, or generate some.
        </p>
      )}
      {value && value.runs.length > 0 && (
        <table className="runs">
          <thead>
            <tr>
              <th scope="col">Run</th>
              <th scope="col">State</th>
              <th scope="col">Progress</th>
              <th scope="col">Failed</th>
              <th scope="col">{isLocal ? "Cost on AWS" : "Cost"}</th>
              <th scope="col">Started</th>
              <th scope="col">Inputs</th>
            </tr>
          </thead>
          <tbody>
            {value.runs.map((run) => (
              <Line key={run.id} run={run} />
            ))}
          </tbody>
        </table>
      )}
      {value?.hasMore && <Button onClick={() => setLimit(limit * 4)}>Show more</Button>}
    </div>
  );
}

function Line({ run }: { run: RunLine }) {
  return (
    <tr>
      <th scope="row">
        <a href={`#/runs/${encodeURIComponent(run.id)}`}>{run.id}</a>
      </th>
      <td className="state">
        <StateBadge run={run} />
        {run.reason && <div className="faint spoken">{run.reason}</div>}
      </td>
      <td>
        <ProgressStrip run={run} />
      </td>
      <td className="number">{run.failed.toLocaleString("en")}</td>
      <td className="number">{dollars(run.dollars)}</td>
      <td>{utc(run.startedAt)}</td>
      <td className="spoken">{run.origin}</td>
    </tr>
  );
}

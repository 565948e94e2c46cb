import Alert from "@cloudscape-design/components/alert";
import { count, dollars, longDuration, utc } from "./format";
import { useCost } from "./prices";
import type { RunActivity, RunLine } from "./types";

// What happens in a run at this moment.
export function LivePanel({ live, run }: { live: RunActivity; run: RunLine }) {
  const cost = useCost();
  return (
    <section aria-label="Live" className="live">
      {live.blockers.map((blocker) => (
        <Alert key={blocker.pipeline} type="warning" header={`${blocker.pipeline}: no worker can serve (${blocker.code})`}>
          <div className="spoken">{blocker.message}</div>
          <div className="spoken">{blocker.remedy}</div>
          <div>{blocker.nextTry}</div>
        </Alert>
      ))}
      <div className="rate" role="status">
        {speed(live, run, cost(dollars(run.dollars)))}
        {live.waits.map((wait) => (
          <span key={wait}>{wait}</span>
        ))}
      </div>
      {live.workers.length === 0 && <div>No worker yet.</div>}
      <ul className="workers" aria-label="Workers">
        {live.workers.map((worker) => (
          <li key={worker.id}>
            <strong>{worker.doing}</strong> since {utc(worker.since)}: {worker.pipeline},{" "}
            {worker.completed.toLocaleString("en")} answered <span className="faint">{worker.id}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function speed(live: RunActivity, run: RunLine, cost: string) {
  return (
    <span>
      {rate(live, run)}; {(run.gpuSeconds / 3600).toFixed(2)} GPU-hours; cost so far: {cost}.
    </span>
  );
}

function rate(live: RunActivity, run: RunLine): string {
  const ended = run.succeeded - run.reused + run.failed + run.cancelled;
  if (ended === 0) return `No item has ended yet${run.reused ? ", besides those that were answered before" : ""}`;
  if (live.itemsPerSecond === 0) return `${count(ended, "item")} ended, none in the last minutes`;
  const left = live.secondsLeft === null ? "" : `, about ${longDuration(live.secondsLeft)} left`;
  if (live.itemsPerSecond >= 0.5) return `${live.itemsPerSecond.toFixed(1)} items a second${left}`;
  return `${(live.itemsPerSecond * 60).toFixed(1)} items a minute${left}`;
}

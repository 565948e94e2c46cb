import Alert from "@cloudscape-design/components/alert";
import { useEffect, useMemo, useState } from "react";
import { ask, send, useAction, usePolled } from "./api";
import { CollectionPage } from "./collection_page";
import { ContactSheet } from "./contact_sheet";
import { LivePanel } from "./live";
import { RetryConfirmation } from "./retry_confirmation";
import { LABELS, RunActions } from "./run_actions";
import { ProgressStrip, StateBadge } from "./run_state";
import { RunSummary } from "./run_summary";
import { RETRY_SELECTED } from "./selection";
import { runOf } from "./source";
import type { ChosenDocuments, RetrySize, RunOverview, Started, State } from "./types";

const GOING_ON = 1500; // milliseconds between two looks, while the run goes on
const QUIET = 10000;

// A retry that the person is asked about.
interface PendingRetry {
  title: string;
  // Null for all that failed.
  selection: ChosenDocuments | null;
  items: number;
}

interface RunPageProps {
  run: string;
  // What follows the run in the URL: nothing, `sheet`, or `item` and a number.
  place: string[];
  onTitle: (title: string) => void;
}

// A run: how far it is, what can be done with it, and its items.
export function RunPage({ run, place, onTitle }: RunPageProps) {
  const source = useMemo(() => runOf(run), [run]);
  const url = `/api/runs/${encodeURIComponent(run)}`;
  const base = `#/runs/${encodeURIComponent(run)}`;
  const overview = usePolled<RunOverview>(
    run,
    () => ask(url),
    (latest) => (latest.run.over ? QUIET : GOING_ON),
  );
  const { value, error } = overview;
  const { problem, perform } = useAction();
  useEffect(() => onTitle(run), [run, onTitle]);

  const act = async (what: () => Promise<void>) => {
    await perform(what);
    overview.again();
  };
  const [pendingRetry, setPendingRetry] = useState<PendingRetry | null>(null);
  const askWhetherToRetry = async (selection: ChosenDocuments) => {
    const { items } = await send<RetrySize>(`${url}/retry-size`, selection);
    setPendingRetry({ title: RETRY_SELECTED, selection, items });
  };
  const retry = async ({ selection }: PendingRetry, maxDollars: number | null) => {
    await act(async () => {
      const started = await send<Started>(`${url}/retry`, { selection, maxDollars });
      location.hash = `#/runs/${encodeURIComponent(started.run)}`;
    });
    setPendingRetry(null);
  };

  const item = place[0] === "item" ? Number(place[1]) : null;
  const above = (state: State) => (
    <section aria-label="Run" className="run">
      {(problem ?? error) && <Alert type="error">{problem ?? error}</Alert>}
      {value && (
        <>
          <div className="run-line">
            <StateBadge run={value.run} />
            <ProgressStrip run={value.run} />
            <a href={`#/compare/${encodeURIComponent(run)}`}>Compare</a>
            {state.varied && <a href={`${base}/sheet`}>Contact sheet</a>}
            <RunActions
              overview={value}
              onCancel={() => act(() => send(`${url}/cancel`, {}))}
              onResume={(maxDollars) => act(() => send(`${url}/resume`, { maxDollars }))}
              onRetry={() =>
                setPendingRetry({ title: LABELS.retry, selection: null, items: value.run.failed + value.run.cancelled })
              }
            />
          </div>
          {value.run.reason && <div className="spoken">{value.run.reason}</div>}
          {value.live && <LivePanel live={value.live} run={value.run} />}
          <RunSummary overview={value} state={state} />
        </>
      )}
    </section>
  );
  if (place[0] === "sheet") return <ContactSheet source={source} base={base} />;
  return (
    <>
      <CollectionPage
        source={source}
        base={base}
        item={item}
        above={above}
        onRetry={value?.actions.includes("retry") ? askWhetherToRetry : undefined}
      />
      {value && pendingRetry && (
        <RetryConfirmation
          title={pendingRetry.title}
          run={value.run}
          items={pendingRetry.items}
          onConfirm={(maxDollars) => retry(pendingRetry, maxDollars)}
          onCancel={() => setPendingRetry(null)}
        />
      )}
    </>
  );
}

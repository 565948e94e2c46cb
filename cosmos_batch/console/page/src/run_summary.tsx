import ExpandableSection from "@cloudscape-design/components/expandable-section";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import { count, dollars, duration, utc } from "./format";
import { useCost } from "./prices";
import type { FailureGroup, RunOverview, State } from "./types";

// The run in numbers, and why items have failed.
export function RunSummary({ overview, state }: { overview: RunOverview; state: State }) {
  const { run, quantiles } = overview;
  const cost = useCost();
  const facts: [string, string][] = [
    ["Answered", `${run.succeeded.toLocaleString("en")}${run.reused ? `, ${run.reused.toLocaleString("en")} before` : ""}`],
    ["Failed", run.failed.toLocaleString("en")],
    ["Cancelled", run.cancelled ? run.cancelled.toLocaleString("en") : ""],
    ["Cost", cost(`${dollars(run.dollars)}${run.maxDollars ? ` of a budget of ${dollars(run.maxDollars)}` : ""}`)],
    ["GPU-hours", (run.gpuSeconds / 3600).toFixed(2)],
    ["One item", Object.entries(quantiles).map(([name, seconds]) => `${name} ${duration(seconds)}`).join(", ")],
    ["Started", utc(run.startedAt)],
    ["Ended", utc(run.endedAt)],
    ["Pipelines", run.pipelines.join(", ")],
    ["Prompt", overview.prompt],
    ["Inputs", run.origin],
  ];
  return (
    <ExpandableSection
      headerText="Summary"
      headerDescription={`${count(run.succeeded, "answer")}, ${run.failed.toLocaleString("en")} failed, cost: ${cost(dollars(run.dollars))}`}
    >
      <KeyValuePairs
        columns={4}
        items={facts.filter(([, value]) => value).map(([label, value]) => ({ label, value: <span className="spoken">{value}</span> }))}
      />
      {state.failures.length > 0 && <Failures kinds={state.failures} />}
    </ExpandableSection>
  );
}

function Failures({ kinds }: { kinds: FailureGroup[] }) {
  return (
    <ul className="failures" aria-label="Failures">
      {kinds.map((kind) => (
        <li key={kind.code} className="spoken">
          <strong>
            {kind.count.toLocaleString("en")} {kind.code}
          </strong>
          , such as {kind.example}: {kind.message} {kind.remedy}
        </li>
      ))}
    </ul>
  );
}

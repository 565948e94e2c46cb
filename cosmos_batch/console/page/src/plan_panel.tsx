import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import CopyToClipboard from "@cloudscape-design/components/copy-to-clipboard";
import { useContext } from "react";
import { count, dollars } from "./format";
import { IsLocal } from "./prices";
import type { PlanShown } from "./types";

// What the run would take and cost, the command that does the same, and its start.
export function PlanPanel({ plan, busy, onStart }: { plan: PlanShown; busy: boolean; onStart: () => void }) {
  const isLocal = useContext(IsLocal);
  return (
    <section aria-label="Plan" className="plan">
      <pre className="document" tabIndex={0} aria-label="Plan of the run">
        {plan.lines.join("\n")}
      </pre>
      {plan.findings.length > 0 && (
        <Alert type="warning" header="Before you start">
          <pre className="spoken">{plan.findings.join("\n")}</pre>
        </Alert>
      )}
      <CopyToClipboard
        variant="inline"
        textToCopy={plan.command}
        textToDisplay={plan.command}
        copyButtonAriaLabel="Copy the command"
        copySuccessText="Copied"
        copyErrorText="It could not be copied"
      />
      <Button variant="primary" loading={busy} onClick={onStart}>
        Start {count(plan.items, "item")} {isLocal ? "at no cost on a local cloud" : `for about ${dollars(plan.dollars)}`}
      </Button>
    </section>
  );
}

import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import { useContext, useState } from "react";
import { Confirmation } from "./confirmation";
import { count } from "./format";
import { IsLocal } from "./prices";
import type { Action, RunOverview } from "./types";

interface RunActionsProps {
  overview: RunOverview;
  onCancel: () => Promise<void>;
  onResume: (maxDollars: number | null) => Promise<void>;
  onRetry: () => Promise<void>;
}

const LABELS: Record<Action, string> = { cancel: "Cancel the run", resume: "Resume", retry: "Retry what failed" };

// What can be done with a run now. Each is confirmed first, because it stops work or costs something.
export function RunActions({ overview, onCancel, onResume, onRetry }: RunActionsProps) {
  const [pending, setPending] = useState<Action | null>(null);
  const [budget, setBudget] = useState("");
  const [busy, setBusy] = useState(false);
  const { run } = overview;
  const isLocal = useContext(IsLocal);
  const perform = async (action: Action) => {
    setBusy(true);
    const maxDollars = Number(budget) > 0 ? Number(budget) : null;
    await { cancel: onCancel, resume: () => onResume(maxDollars), retry: onRetry }[action]();
    setBusy(false);
    setPending(null);
  };
  return (
    <div className="actions">
      {overview.actions.map((action) => (
        <Button key={action} onClick={() => setPending(action)}>
          {LABELS[action]}
        </Button>
      ))}
      {pending && (
        <Confirmation
          title={LABELS[pending]}
          busy={busy}
          onConfirm={() => perform(pending)}
          onCancel={() => setPending(null)}
        >
          {pending === "cancel" && (
            <p>What waits is not asked, and what is under way is dropped. Answers stay, and the run can be resumed.</p>
          )}
          {pending === "retry" && (
            <p>
              A new run asks again about {count(run.failed + run.cancelled, "item")},{" "}
              {isLocal ? "at no cost on a local cloud" : "at about the cost of before"}.
            </p>
          )}
          {pending === "resume" && (
            <FormField label="Another budget in dollars" description="Empty: the budget of the run stays.">
              <Input type="number" inputMode="decimal" value={budget} onChange={({ detail }) => setBudget(detail.value)} />
            </FormField>
          )}
        </Confirmation>
      )}
    </div>
  );
}

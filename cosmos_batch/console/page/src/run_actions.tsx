import Button from "@cloudscape-design/components/button";
import { useState } from "react";
import { BudgetField, budgetOf } from "./budget_field";
import { Confirmation } from "./confirmation";
import type { Action, RunOverview } from "./types";

interface RunActionsProps {
  overview: RunOverview;
  onCancel: () => Promise<void>;
  onResume: (maxDollars: number | null) => Promise<void>;
  // Asks the person before anything is started.
  onRetry: () => void;
}

export const LABELS: Record<Action, string> = { cancel: "Cancel the run", resume: "Resume", retry: "Retry what failed" };

// What can be done with a run now. Each is confirmed first, because it stops work or costs something.
export function RunActions({ overview, onCancel, onResume, onRetry }: RunActionsProps) {
  const [pending, setPending] = useState<"cancel" | "resume" | null>(null);
  const [budget, setBudget] = useState("");
  const [busy, setBusy] = useState(false);
  const perform = async (action: "cancel" | "resume") => {
    setBusy(true);
    await (action === "cancel" ? onCancel() : onResume(budgetOf(budget)));
    setBusy(false);
    setPending(null);
  };
  return (
    <div className="actions">
      {overview.actions.map((action) => (
        <Button key={action} onClick={() => (action === "retry" ? onRetry() : setPending(action))}>
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
          {pending === "resume" && (
            <BudgetField
              label="Another budget in dollars"
              description="Empty: the budget of the run stays."
              value={budget}
              onChange={setBudget}
            />
          )}
        </Confirmation>
      )}
    </div>
  );
}

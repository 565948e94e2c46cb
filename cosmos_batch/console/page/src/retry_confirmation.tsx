import { useContext, useState } from "react";
import { BudgetField, budgetOf } from "./budget_field";
import { Confirmation } from "./confirmation";
import { count, dollars } from "./format";
import { IsLocal } from "./prices";
import type { RunLine } from "./types";

interface RetryConfirmationProps {
  title: string;
  run: RunLine;
  // How many items are asked again.
  items: number;
  onConfirm: (maxDollars: number | null) => Promise<void>;
  onCancel: () => void;
}

// Asks whether to start a run over what failed in another, and what it may cost.
export function RetryConfirmation({ title, run, items, onConfirm, onCancel }: RetryConfirmationProps) {
  const [budget, setBudget] = useState("");
  const [busy, setBusy] = useState(false);
  const isLocal = useContext(IsLocal);
  const confirm = async () => {
    setBusy(true);
    await onConfirm(budgetOf(budget));
    setBusy(false);
  };
  return (
    <Confirmation title={title} busy={busy} onConfirm={confirm} onCancel={onCancel}>
      <p>
        A new run asks again about {count(items, "item")}, {isLocal ? "at no cost on a local cloud" : estimate(run, items)}.
      </p>
      <BudgetField
        label="Budget in dollars"
        description="No more items are sent once so much is spent or in flight. Empty: no limit."
        value={budget}
        onChange={setBudget}
      />
    </Confirmation>
  );
}

function estimate(run: RunLine, items: number): string {
  const answered = run.succeeded - run.reused;
  if (!answered) return "at a cost that is not known, because this run has no answer of its own";
  return `for about ${dollars((items * run.dollars) / answered)}, by what an answer of this run has cost`;
}

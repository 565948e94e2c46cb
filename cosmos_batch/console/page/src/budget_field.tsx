import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";

interface BudgetFieldProps {
  label: string;
  description: string;
  // What the person has typed.
  value: string;
  onChange: (value: string) => void;
}

export function BudgetField({ label, description, value, onChange }: BudgetFieldProps) {
  return (
    <FormField label={label} description={description}>
      <Input type="number" inputMode="decimal" value={value} onChange={({ detail }) => onChange(detail.value)} />
    </FormField>
  );
}

// The budget in dollars, as it was typed: the console refuses one that is not above zero. Null where none was typed.
export function budgetOf(typed: string): number | null {
  return typed.trim() === "" ? null : Number(typed);
}

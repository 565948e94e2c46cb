import ExpandableSection from "@cloudscape-design/components/expandable-section";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Select from "@cloudscape-design/components/select";
import { useState } from "react";
import type { FormField as Field } from "./types";

export type Parameters = Record<string, string | number | boolean>;

interface ParameterFormProps {
  fields: Field[];
  parameters: Parameters;
  onChange: (parameters: Parameters) => void;
}

// A field for each parameter of the schema. One that is left empty has its default.
export function ParameterForm({ fields, parameters, onChange }: ParameterFormProps) {
  const set = (name: string, value: string | number | boolean | undefined) => {
    const others = Object.entries(parameters).filter(([other]) => other !== name);
    onChange(Object.fromEntries(value === undefined ? others : [...others, [name, value]]));
  };
  return (
    <ExpandableSection headerText="Parameters" headerDescription="Each that is left empty has its default.">
      <div className="parameters">
        {fields.map((field) => (
          <FormField key={field.name} label={field.name} description={field.help} constraintText={limits(field)}>
            <ParameterInput field={field} value={parameters[field.name]} onChange={(value) => set(field.name, value)} />
          </FormField>
        ))}
      </div>
    </ExpandableSection>
  );
}

interface ParameterInputProps {
  field: Field;
  value: string | number | boolean | undefined;
  onChange: (value: string | number | boolean | undefined) => void;
}

const DEFAULT = { value: "", label: "Default" };
const SWITCH = [
  { value: "true", label: "Yes" },
  { value: "false", label: "No" },
];

function ParameterInput({ field, value, onChange }: ParameterInputProps) {
  const [typed, setTyped] = useState("");
  if (field.kind === "choice" || field.kind === "switch") {
    const options = field.kind === "switch" ? SWITCH : field.choices.map((one) => ({ value: one, label: one }));
    const chosen = options.find((one) => one.value === String(value));
    return (
      <Select
        expandToViewport
        selectedOption={chosen ?? DEFAULT}
        options={[DEFAULT, ...options]}
        onChange={({ detail }) => {
          const text = detail.selectedOption.value;
          onChange(!text ? undefined : field.kind === "switch" ? text === "true" : text);
        }}
      />
    );
  }
  const change = (text: string) => {
    setTyped(text);
    if (!text.trim()) onChange(undefined);
    else onChange(field.kind === "text" || Number.isNaN(Number(text)) ? text : Number(text));
  };
  return (
    <Input
      value={typed}
      type={field.kind === "text" ? "text" : "number"}
      step={field.kind === "integer" ? 1 : "any"}
      onChange={({ detail }) => change(detail.value)}
    />
  );
}

function limits(field: Field): string {
  if (field.minimum === null && field.maximum === null) return "";
  if (field.maximum === null) return `At least ${field.minimum}.`;
  return field.minimum === null ? `At most ${field.maximum}.` : `${field.minimum} to ${field.maximum}.`;
}

import ExpandableSection from "@cloudscape-design/components/expandable-section";
import FormField from "@cloudscape-design/components/form-field";
import { GroupInput, ParameterInput } from "./parameter_inputs";
import type { FormField as Field } from "./types";

export type Value = string | number | boolean | number[] | { [name: string]: Value };
export type Parameters = Record<string, Value>;

export interface ParameterFormProps {
  fields: Field[];
  parameters: Parameters;
  onChange: (parameters: Parameters) => void;
  // Takes the id of a dropped file, or null for none, for the parameter at a path such as `controls.edge.path`.
  onFile: (path: string, file: File | null) => Promise<void>;
}

// All parameters of a pipeline, in a part of the page that is closed at first.
export function ParameterForm(props: ParameterFormProps) {
  return (
    <ExpandableSection headerText="Parameters" headerDescription="Each that is left empty has its default.">
      <ParameterFields {...props} path="" />
    </ExpandableSection>
  );
}

// A field for each parameter of a schema. One that is left empty has its default.
export function ParameterFields({ fields, parameters, onChange, onFile, path }: ParameterFormProps & { path: string }) {
  const set = (name: string, value: Value | undefined) => {
    const others = Object.entries(parameters).filter(([other]) => other !== name);
    onChange(Object.fromEntries(value === undefined ? others : [...others, [name, value]]));
  };
  return (
    <div className="parameters">
      {fields.map((field) => {
        const input = {
          field,
          value: parameters[field.name],
          onChange: (value: Value | undefined) => set(field.name, value),
          onFile,
          path: `${path}${field.name}`,
        };
        if (field.kind === "group") return <GroupInput key={field.name} {...input} />;
        return (
          <FormField key={field.name} label={field.name} description={field.help} constraintText={limits(field)}>
            <ParameterInput {...input} />
          </FormField>
        );
      })}
    </div>
  );
}

function limits(field: Field): string {
  if (field.minimum === null && field.maximum === null) return "";
  if (field.maximum === null) return `At least ${field.minimum}.`;
  return field.minimum === null ? `At most ${field.maximum}.` : `${field.minimum} to ${field.maximum}.`;
}

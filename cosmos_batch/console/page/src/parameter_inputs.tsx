import Checkbox from "@cloudscape-design/components/checkbox";
import Input from "@cloudscape-design/components/input";
import Select from "@cloudscape-design/components/select";
import { useState } from "react";
import { useAction } from "./api";
import { ParameterFields, type Parameters, type Value } from "./parameter_form";
import type { FormField } from "./types";

interface ParameterInputProps {
  field: FormField;
  value: Value | undefined;
  onChange: (value: Value | undefined) => void;
  onFile: (path: string, file: File | null) => Promise<void>;
  // Where the parameter is among all, such as `controls.edge.path`.
  path: string;
}

const DEFAULT = { value: "", label: "Default" };
const SWITCH = [
  { value: "true", label: "Yes" },
  { value: "false", label: "No" },
];

// The input of a parameter that is one value.
export function ParameterInput(props: ParameterInputProps) {
  const { field, value, onChange } = props;
  if (field.kind === "choice" || field.kind === "switch") return <ChoiceInput {...props} />;
  if (field.kind === "file") return <FileInput {...props} />;
  return <TypedInput field={field} value={value} onChange={onChange} />;
}

// Members that a person switches on, each with fields of its own, such as the controls of a generation.
export function GroupInput({ field, value, onChange, onFile, path }: ParameterInputProps) {
  const members = (value ?? {}) as Record<string, Parameters>;
  const set = (name: string, member: Parameters | undefined) => {
    const others = Object.entries(members).filter(([other]) => other !== name);
    const all = member === undefined ? others : [...others, [name, member] as const];
    onChange(all.length > 0 ? Object.fromEntries(all) : undefined);
  };
  return (
    <fieldset className="group">
      <legend>{field.name}</legend>
      <div className="faint">{field.help}</div>
      {field.choices.map((name) => (
        <div key={name}>
          <Checkbox
            checked={name in members}
            onChange={({ detail }) => {
              set(name, detail.checked ? {} : undefined);
              for (const one of field.fields) void onFile(`${path}.${name}.${one.name}`, null);
            }}
          >
            {name}
          </Checkbox>
          {name in members && (
            <ParameterFields
              fields={field.fields}
              parameters={members[name] ?? {}}
              onChange={(member) => set(name, member)}
              onFile={onFile}
              path={`${path}.${name}.`}
            />
          )}
        </div>
      ))}
    </fieldset>
  );
}

function ChoiceInput({ field, value, onChange }: ParameterInputProps) {
  const options = field.kind === "switch" ? SWITCH : field.choices.map((one) => ({ value: one, label: one }));
  const chosen = options.find((one) => one.value === (typeof value === "boolean" ? String(value) : value));
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

// A file in S3, or one of this machine, which is uploaded when the run starts.
function FileInput({ value, onChange, onFile, path, field }: ParameterInputProps) {
  const { busy, problem, perform } = useAction();
  const take = (file: File | undefined) =>
    perform(async () => {
      onChange(undefined);
      await onFile(path, file ?? null);
    });
  return (
    <div className="file-input">
      <Input
        value={typeof value === "string" ? value : ""}
        placeholder="s3://bucket/key"
        onChange={({ detail }) => {
          void onFile(path, null);
          onChange(detail.value.trim() || undefined);
        }}
      />
      <input
        type="file"
        aria-label={`File for ${path}`}
        disabled={busy}
        accept={field.name === "actionPath" ? ".json" : "video/*,.mkv"}
        onChange={(event) => void take(event.target.files?.[0])}
      />
      {problem && <span role="alert">{problem}</span>}
    </div>
  );
}

// A text, a number, or several whole numbers with commas between them.
function TypedInput({ field, onChange }: Pick<ParameterInputProps, "field" | "value" | "onChange">) {
  const [typed, setTyped] = useState("");
  const change = (text: string) => {
    setTyped(text);
    if (!text.trim()) onChange(undefined);
    else if (field.kind === "integers") onChange(text.split(",").filter((one) => one.trim()).map(Number));
    else onChange(field.kind === "text" || Number.isNaN(Number(text)) ? text : Number(text));
  };
  const isText = field.kind === "text" || field.kind === "integers";
  return (
    <Input
      value={typed}
      type={isText ? "text" : "number"}
      step={field.kind === "integer" ? 1 : "any"}
      placeholder={field.kind === "integers" ? "0, 1" : ""}
      onChange={({ detail }) => change(detail.value)}
    />
  );
}

import Input from "@cloudscape-design/components/input";
import Select, { type SelectProps } from "@cloudscape-design/components/select";
import { memo, useEffect, useRef, useState } from "react";
import type { Facet, Query, Sort, State, Status } from "./types";

const TYPING = 40; // milliseconds without a key before a search begins
const SORTS: [Sort, string][] = [
  ["newest", "Newest first"],
  ["oldest", "Oldest first"],
  ["name", "By name"],
  ["model", "By model"],
  ["slowest", "Slowest first"],
  ["dearest", "Dearest first"],
  ["score", "Greatest score first"],
];

interface FiltersProps {
  query: Query;
  state: State;
  onChange: (query: Query) => void;
}

export const Filters = memo(function Filters({ query, state, onChange }: FiltersProps) {
  return (
    <div className="filters">
      <Search value={query.search} onChange={(search) => onChange({ ...query, search })} />
      <Choice
        label="Status"
        all="Any status"
        value={query.status}
        options={[
          { value: "succeeded", count: state.succeeded },
          { value: "failed", count: state.failed },
        ]}
        onChange={(status) => onChange({ ...query, status: status as Status })}
      />
      <Choice
        label="Error"
        all="Any error"
        value={query.errorCode}
        options={state.errorCodes}
        onChange={(errorCode) => onChange({ ...query, errorCode })}
      />
      <Choice
        label="Model"
        all="Any model"
        value={query.model}
        options={state.models}
        onChange={(model) => onChange({ ...query, model })}
      />
      <Choice
        label="Label"
        all="Any label"
        value={query.label}
        options={state.labels}
        onChange={(label) => onChange({ ...query, label })}
      />
      <Limit
        label="Seconds, at least"
        placeholder="≥ seconds"
        least={0}
        value={query.minSeconds}
        onChange={(minSeconds) => onChange({ ...query, minSeconds })}
      />
      <Limit
        label="Seconds, at most"
        placeholder="≤ seconds"
        least={0}
        value={query.maxSeconds}
        onChange={(maxSeconds) => onChange({ ...query, maxSeconds })}
      />
      {state.scored && (
        <>
          <Limit
            label="Score, at least"
            placeholder="≥ score"
            least={-Infinity}
            value={query.minScore}
            onChange={(minScore) => onChange({ ...query, minScore })}
          />
          <Limit
            label="Score, at most"
            placeholder="≤ score"
            least={-Infinity}
            value={query.maxScore}
            onChange={(maxScore) => onChange({ ...query, maxScore })}
          />
        </>
      )}
      <Select
        ariaLabel="Order"
        selectedOption={option(query.sort, SORTS.find(([sort]) => sort === query.sort)?.[1] ?? query.sort)}
        options={SORTS.map(([value, label]) => option(value, label))}
        onChange={({ detail }) => onChange({ ...query, sort: detail.selectedOption.value as Sort })}
      />
    </div>
  );
});

function Search({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const [typed, setTyped] = useState(value);
  const latest = useRef(onChange);
  latest.current = onChange;
  useEffect(() => {
    if (typed === value) return;
    const timer = setTimeout(() => latest.current(typed), TYPING);
    return () => clearTimeout(timer);
  }, [typed, value]);
  useEffect(() => {
    const focus = (event: KeyboardEvent) => {
      if (event.key !== "/" || event.target instanceof HTMLInputElement) return;
      event.preventDefault();
      document.querySelector<HTMLInputElement>(".search input")?.focus();
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, []);
  return (
    <div className="search">
      <Input
        type="search"
        ariaLabel="Search"
        clearAriaLabel="Clear the search"
        placeholder="Search names, prompts, answers"
        value={typed}
        onChange={({ detail }) => setTyped(detail.value.slice(0, 200))}
      />
    </div>
  );
}

interface LimitProps {
  label: string;
  placeholder: string;
  // Smaller numbers are ignored.
  least: number;
  value: number | null;
  onChange: (value: number | null) => void;
}

// A number that values must reach, or must not exceed.
function Limit({ label, placeholder, least, value, onChange }: LimitProps) {
  const [typed, setTyped] = useState(value === null ? "" : String(value));
  const change = (text: string) => {
    setTyped(text);
    const number = Number(text);
    if (!text.trim()) onChange(null);
    else if (Number.isFinite(number) && number >= least) onChange(number);
  };
  return (
    <div>
      <Input
        type="number"
        inputMode="decimal"
        ariaLabel={label}
        placeholder={placeholder}
        value={typed}
        onChange={({ detail }) => change(detail.value)}
      />
    </div>
  );
}

interface ChoiceProps {
  label: string;
  all: string;
  value: string;
  options: Facet[];
  onChange: (value: string) => void;
}

// A filter by one of the values that documents have; it is left out where there is nothing to choose.
function Choice({ label, all, value, options, onChange }: ChoiceProps) {
  const present = options.filter((one) => one.count > 0 || one.value === value);
  if (present.length === 0) return null;
  const every = option("", all);
  return (
    <Select
      ariaLabel={label}
      selectedOption={value ? option(value, value) : every}
      filteringType={present.length > 10 ? "auto" : "none"}
      filteringAriaLabel={`Find: ${label}`}
      options={[every, ...present.map((one) => option(one.value, one.value, one.count.toLocaleString("en")))]}
      onChange={({ detail }) => onChange(detail.selectedOption.value ?? "")}
    />
  );
}

function option(value: string, label: string, tag = ""): SelectProps.Option {
  return tag ? { value, label, labelTag: tag } : { value, label };
}

import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import Checkbox from "@cloudscape-design/components/checkbox";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Select from "@cloudscape-design/components/select";
import Textarea from "@cloudscape-design/components/textarea";
import { useEffect, useRef, useState } from "react";
import { ask, send, useAction, usePolled } from "./api";
import { Waiting } from "./app";
import { BudgetField, budgetOf } from "./budget_field";
import { DropZone } from "./drop_zone";
import { ParameterForm, type Parameters } from "./parameter_form";
import { PlanPanel } from "./plan_panel";
import { PrefixChooser } from "./prefix_chooser";
import type { Dropped, NewRunForm, PlanShown, Started } from "./types";

// A new run: what it is about, what is asked, what it will cost, and its start.
export function NewPage({ onTitle }: { onTitle: (title: string) => void }) {
  const form = usePolled<NewRunForm>(
    "new",
    () => ask("/api/new"),
    () => null,
  );
  useEffect(() => onTitle("New run"), [onTitle]);
  return (
    <div className="scrolled">
      <h2>New run</h2>
      {form.error && <Alert type="error">{form.error}</Alert>}
      {!form.value && !form.error && <Waiting />}
      {form.value && <RunForm form={form.value} />}
    </div>
  );
}

// What appears below the button is not overlooked.
const intoView = (element: HTMLElement | null) => element?.scrollIntoView({ block: "nearest" });

const NO_TASK = "No preset";

function RunForm({ form }: { form: NewRunForm }) {
  // What the form begins with, as when an item is asked again: #/new?source=s3://...&prompt=...&task=...&pipeline=...
  const [first] = useState(() => new URLSearchParams(location.hash.split("?")[1]));
  const [sources, setSources] = useState(first.get("source") ?? "");
  const [dropped, setDropped] = useState<Dropped | null>(null);
  const [pipeline, setPipeline] = useState(
    (form.pipelines.find((one) => one.id === first.get("pipeline")) ?? form.pipelines[0])?.id ?? "",
  );
  const [task, setTask] = useState(first.get("task") ?? "");
  const [prompt, setPrompt] = useState(first.get("prompt") ?? "");
  const [budget, setBudget] = useState("");
  const [skipInvalid, setSkipInvalid] = useState(false);
  const [parameters, setParameters] = useState<Parameters>({});
  const [files, setFiles] = useState<Record<string, string>>({});
  const [seeds, setSeeds] = useState("");
  const [plan, setPlan] = useState<PlanShown | null>(null);
  const [copying, setCopying] = useState(false); // the dropped files
  const [copies, setCopies] = useState(0); // of parameters' files that are under way
  const changes = useRef(0); // of the form so far
  const { busy, problem, setProblem, perform } = useAction();
  const surface = form.pipelines.find((one) => one.id === pipeline)?.surface ?? "reasoner";
  const chosen = form.tasks.find((one) => one.name === task);

  // The form has changed, so an earlier plan does not match it any more.
  const outdate = () => {
    changes.current += 1;
    setPlan(null);
  };
  const changed = <Value,>(set: (value: Value) => void) => {
    return (value: Value) => {
      set(value);
      outdate();
    };
  };
  const makePlan = () =>
    perform(async () => {
      outdate();
      const before = changes.current;
      const answer = await send<PlanShown>("/api/plans", {
        sources: sources.split(/\n+/).map((one) => one.trim()).filter(Boolean),
        dropped: dropped?.folder ?? null,
        pipeline: pipeline || null,
        prompt: prompt.trim() || null,
        parameters: { ...(task && surface === "reasoner" ? { task } : {}), ...parameters },
        parameterFiles: files,
        seeds: (surface === "generator" && seeds.replace(/\s/g, "")) || null,
        skipInvalid,
        maxDollars: budgetOf(budget),
      });
      if (changes.current === before) setPlan(answer);
    });
  const setFile = (path: string, folder: string | null) => {
    outdate();
    setFiles((before) => {
      const others = Object.entries(before).filter(([other]) => other !== path);
      return Object.fromEntries(folder === null ? others : [...others, [path, folder]]);
    });
  };
  // Copies a parameter's file to the console, or forgets it. A plan that is asked for meanwhile would be without it.
  const takeFile = async (path: string, file: File | null) => {
    setFile(path, null);
    if (!file) return;
    setCopies((before) => before + 1);
    try {
      const values = new URLSearchParams({ name: file.name });
      setFile(path, (await ask<Dropped>(`/api/dropped?${values}`, { method: "POST", body: file })).folder);
    } finally {
      setCopies((before) => before - 1);
    }
  };
  const start = () =>
    perform(async () => {
      const started = await send<Started>(`/api/plans/${plan?.id}/start`, {});
      location.hash = `#/runs/${encodeURIComponent(started.run)}`;
    });

  return (
    <div className="new">
      <DropZone
        dropped={dropped}
        onDropped={changed(setDropped)}
        onBusy={changed(setCopying)}
        onProblem={setProblem}
      />
      <FormField
        label="Or files in S3"
        description={`Prefixes that end in /, or files; one on each line. They must lie below ${form.roots.join(" or ")}.`}
      >
        <Textarea
          value={sources}
          rows={2}
          placeholder={form.roots[0] ?? ""}
          onChange={({ detail }) => changed(setSources)(detail.value)}
        />
      </FormField>
      <PrefixChooser
        roots={form.roots}
        onChoose={(uri) => changed(setSources)([sources.trimEnd(), uri].filter(Boolean).join("\n"))}
      />
      <FormField label="Pipeline">
        <Select
          expandToViewport
          selectedOption={{ value: pipeline, label: pipeline }}
          options={form.pipelines.map((one) => ({ value: one.id, label: one.id, description: one.model }))}
          onChange={({ detail }) => {
            changed(setPipeline)(detail.selectedOption.value ?? "");
            setParameters({});
            setFiles({});
          }}
        />
      </FormField>
      {surface === "reasoner" && (
        <FormField label="Task" description="A question of NVIDIA's prompt guides; the prompt is then its subject.">
          <Select
            expandToViewport
            selectedOption={{ value: task, label: task || NO_TASK }}
            filteringType="auto"
            options={[{ value: "", label: NO_TASK }, ...form.tasks.map((one) => ({ value: one.name, label: one.name, description: one.example }))]}
            onChange={({ detail }) => changed(setTask)(detail.selectedOption.value ?? "")}
          />
        </FormField>
      )}
      <FormField label="Prompt">
        <Textarea
          value={prompt}
          rows={3}
          placeholder={chosen?.example ?? ""}
          onChange={({ detail }) => changed(setPrompt)(detail.value)}
        />
      </FormField>
      {surface === "generator" && (
        <FormField label="Seeds" description="Such as 1, 2, 10-12. Each file and prompt is made with each of them. Empty: one, drawn.">
          <Input value={seeds} onChange={({ detail }) => changed(setSeeds)(detail.value)} />
        </FormField>
      )}
      <BudgetField
        label="Budget in dollars"
        description="The run stops when so much is spent. Empty: no limit."
        value={budget}
        onChange={changed(setBudget)}
      />
      <ParameterForm
        key={pipeline}
        fields={form.fields[surface] ?? []}
        parameters={parameters}
        onChange={changed(setParameters)}
        onFile={takeFile}
      />
      <Checkbox checked={skipInvalid} onChange={({ detail }) => changed(setSkipInvalid)(detail.checked)}>
        Leave out files that cannot be used
      </Checkbox>
      <Button
        loading={busy && !plan}
        disabled={copying || copies > 0}
        disabledReason="Files are still being copied."
        onClick={() => void makePlan()}
      >
        Show the plan and its price
      </Button>
      {problem && (
        <div ref={intoView}>
          <Alert type="error">
            <div className="spoken">{problem}</div>
          </Alert>
        </div>
      )}
      {plan && (
        <div ref={intoView}>
          <PlanPanel plan={plan} busy={busy} onStart={() => void start()} />
        </div>
      )}
    </div>
  );
}

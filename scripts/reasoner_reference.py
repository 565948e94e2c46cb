"""Write the tables of `docs/reasoner.md`: pipelines, parameters and tasks. `make docs` runs this."""

import sys
from dataclasses import asdict
from pathlib import Path

from configuration_reference import row
from tables import filled, table

from cosmos_batch.contract.catalogue import PIPELINES
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.sampling import ANSWERING, REASONING
from cosmos_batch.contract.tasks import TASKS, Task

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reasoner.md"


def page(text: str) -> str:
    """The page with its tables as they are now."""
    tables = {"pipelines": _pipelines(), "parameters": _parameters(), "sampling": _sampling(), "tasks": _tasks()}
    return filled(text, tables)


def _pipelines() -> str:
    rows = [
        f"| `{one.id}` | `{one.config_key}` | {one.model} | {one.gpus_per_worker} x {one.min_gpu_memory_gb} GB | "
        f"{one.context:,} tokens |"
        for one in PIPELINES
        if one.surface == "reasoner"
    ]
    return table("| pipeline | in the configuration | model | GPUs of a worker, at least | context |", rows)


def _parameters() -> str:
    rows = [row(field) for field in Parameters.model_fields.values()]
    return table("| parameter | type | default | what it is |", rows)


def _sampling() -> str:
    names = {name: str(field.alias) for name, field in Parameters.model_fields.items()}
    answering, reasoning = asdict(ANSWERING), asdict(REASONING)
    rows = [f"| `{names[name]}` | {answering[name]:g} | {reasoning[name]:g} |" for name in answering]
    return table("| parameter | without reasoning | with reasoning |", rows)


def _tasks() -> str:
    return table(
        "| task | file | thinks first | without a prompt | an example of a prompt | `data` |",
        list(map(_task, TASKS.values())),
    )


def _task(task: Task) -> str:
    nothing = "refused" if task.subject is None else task.subject.replace("{medium}", "video") or "nothing is added"
    fields = task.schema["items"]["properties"] if task.schema else {}
    cells = [
        f"`{task.name}`",
        task.medium or "either",
        "yes" if task.reasoning else "no",
        nothing,
        task.example,
        "list of " + ", ".join(f"`{name}`" for name in fields) if fields else "",
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(TARGET.write_text(page(TARGET.read_text(encoding="utf-8")), encoding="utf-8") and 0)

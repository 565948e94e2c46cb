"""`docs/troubleshooting.md` quotes what our code says: an error, its code and its remedy, together."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from cosmos_batch.contract.error import ErrorCode
from lambdas.scaling.batch_reasons import end_by_batch

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")][2:]
SYMPTOMS = ["memory", "Token", "Licence", "Cached", "EFS", "wait long", "CodeBuild", "429"]  # those of VAMS's page
GENERATOR_SYMPTOMS = ["generation", "guardrail", "Something else was made", "upsamplePrompt", "document"]
FOREIGN_TEXTS = {"429 Too Many Requests"}  # Docker Hub's words
CODES = set(get_args(ErrorCode))


@dataclass
class ErrorTexts:
    """The error codes of one function, and the strings in it and in the constants and functions that it names."""

    codes: set[str]
    texts: list[str]

    def contains(self, quote: str) -> bool:
        """Return whether the strings contain each part of a quote, whose `…` stand for names and numbers."""
        parts = [part.strip() for part in quote.split("…") if part.strip(" .,")]
        return all(any(part.rstrip(".") in text for text in self.texts) for part in parts)


@cache
def trees() -> list[ast.Module]:
    files = [path for room in ("cosmos_batch", "lambdas") for path in sorted((ROOT / room).rglob("*.py"))]
    return [ast.parse(path.read_text(encoding="utf-8")) for path in files]


@cache
def definitions() -> dict[str, list[ast.AST]]:
    """Return the values of constants and the functions of all modules, by their names."""
    nodes: dict[str, list[ast.AST]] = {}
    for tree in trees():
        rooms = [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]
        for node in (node for room in rooms for node in room.body):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                nodes.setdefault(node.targets[0].id, []).append(node.value)
            elif isinstance(node, ast.FunctionDef) and node in tree.body:
                nodes.setdefault(node.name, []).append(node)
    return nodes


def texts(node: ast.AST, depth: int = 2) -> Iterator[str]:
    """Yield the strings in a part of the code, and those of the names in it."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
        name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
        yield from strings_of_name(name, depth - 1) if name and depth else ()


@cache
def strings_of_name(name: str, depth: int) -> list[str]:
    """Return the strings in the constants and functions of a name."""
    return [text for node in definitions().get(name, []) for text in texts(node, depth)]


@cache
def error_texts() -> list[ErrorTexts]:
    """Return the texts of each function with an error code, its own or that of a method that it calls."""
    errors = []
    for tree in trees():
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        codes = {one.name: CODES.intersection(texts(one, 0)) for one in functions}
        for one in functions:
            called = {part.attr for part in ast.walk(one) if isinstance(part, ast.Attribute)}
            its = codes[one.name].union(*(codes[name] for name in called if name in codes))
            if its:
                errors.append(ErrorTexts(its, list(texts(one))))
    return errors


def quotes(cell: str) -> list[str]:
    return re.findall(r'"([^"]+)"', cell)


def errors_with(code: str, quote: str) -> list[ErrorTexts]:
    """Return the errors with a code and a quote: those of our functions, or one that `end_by_batch` reads."""
    of_batch = end_by_batch("worker", {"statusReason": quote}).error
    by_batch = (
        [ErrorTexts({code}, [of_batch.remedy])]
        if of_batch.code == code and "Batch console" not in of_batch.remedy
        else []
    )
    return by_batch + [one for one in error_texts() if code in one.codes and one.contains(quote)]


def test_every_symptom_of_the_seed_and_of_generators_is_there() -> None:
    symptoms = " ".join(row[0] for row in ROWS)
    assert not [symptom for symptom in (*SYMPTOMS, *GENERATOR_SYMPTOMS) if symptom not in symptoms]
    assert len(ROWS) >= 15


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_an_error_is_quoted_with_its_code_and_its_remedy(row: list[str]) -> None:
    _, error, remedy = row
    code = re.match(r"`(\w+)`:", error)
    if code is None or remedy.startswith("Nothing:"):
        everything = ErrorTexts(set(), [text for tree in trees() for text in texts(tree, 0)])
        assert not [quote for quote in quotes(error) if quote not in FOREIGN_TEXTS and not everything.contains(quote)]
        assert code is None or code[1] in CODES
        return
    assert quotes(remedy), "the remedy that the error gives"
    for quote in quotes(error):
        assert any(
            one.contains(remedy_quote) for one in errors_with(code[1], quote) for remedy_quote in quotes(remedy)
        ), quote
    for remedy_quote in quotes(remedy):
        assert any(one.contains(remedy_quote) for quote in quotes(error) for one in errors_with(code[1], quote)), (
            remedy_quote
        )

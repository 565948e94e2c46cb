"""Reads which functions and attributes a Python module has, from its source: nothing of it is imported."""

import ast
from pathlib import Path
from typing import Any


def functions_of(path: Path) -> dict[str, dict[str, Any]]:
    """Return the parameters of each function and method of a module, what it calls by name, and how the messages of its
    exceptions begin.
    """
    found = {}
    for name, node in _definitions(ast.parse(path.read_text(encoding="utf-8")), ast.FunctionDef):
        arguments = node.args
        calls = {ast.unparse(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
        found[name] = {
            "parameters": [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)],
            "calls": sorted(call for call in calls if call.replace(".", "").isidentifier()),
            "raises": [text for one in ast.walk(node) if isinstance(one, ast.Raise) if (text := _beginning(one))],
        }
    return found


def attributes_of(path: Path) -> dict[str, list[str]]:
    """Return the names of each class's fields, and of what its methods set on `self`."""
    found = {}
    for name, node in _definitions(ast.parse(path.read_text(encoding="utf-8")), ast.ClassDef):
        fields = {ast.unparse(one.target) for one in node.body if isinstance(one, ast.AnnAssign)}
        stores = [one for one in ast.walk(node) if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)]
        found[name] = sorted(fields | {one.attr for one in stores if ast.unparse(one.value) == "self"})
    return found


def _definitions(tree: ast.AST, kind: type[Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return the definitions of one kind in a module and its classes, with the names of their classes before them."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, kind):
            found.append((prefix + node.name, node))
        if isinstance(node, ast.ClassDef):
            found += _definitions(node, kind, f"{prefix}{node.name}.")
    return found


def _beginning(raised: ast.Raise) -> str | None:
    """Return the constant text with which the message of a raised exception begins."""
    message = raised.exc.args[0] if isinstance(raised.exc, ast.Call) and raised.exc.args else None
    first = message.values[0] if isinstance(message, ast.JoinedStr) else message
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None

"""Tables in pages that people write, made from what the program says."""

import re


def filled(text: str, tables: dict[str, str]) -> str:
    """Return the page with its tables replaced; each stands between `<!-- name -->` and `<!-- end -->`."""
    for name, table_lines in tables.items():
        begin = f"<!-- {name} -->\n"
        assert begin in text, f"the page has no {begin}"
        text = re.sub(
            f"({begin}).*?(?=<!-- end -->)",
            lambda match, table_lines=table_lines: match[1] + table_lines,
            text,
            flags=re.DOTALL,
        )
    return text


def table(head: str, rows: list[str]) -> str:
    """Return a table in Markdown; `head` and rows are lines."""
    line = "| " + " | ".join("---" for _ in head.split("|")[1:-1]) + " |"
    return "\n".join([head, line, *rows, ""])


def line(*cells: object) -> str:
    """Return a row of a table in Markdown."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"

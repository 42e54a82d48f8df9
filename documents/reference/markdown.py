"""Tables of Markdown."""

from collections.abc import Iterable


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table, with a line break behind it."""
    named = tuple(head)
    lines = [named, tuple("---" for _ in named), *map(tuple, rows)]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def cell(text: str) -> str:
    """Return what a cell can hold: one line, in which a bar is none of the table's."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Return a word as it is typed; nothing for none."""
    return f"`{text}`" if text else ""

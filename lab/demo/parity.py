"""Two runs of one workload and seed must write the same files."""

from itertools import zip_longest
from pathlib import Path
from typing import IO

COMPARED = ("decisions.jsonl", "charges.jsonl", "jobs.csv", "accounts.json", "summary.json")


def first_difference(left: Path, right: Path) -> str | None:
    """Return where the files of two runs first differ, in words; None when they are equal.

    Raises FileNotFoundError for a run that did not write a file.
    """
    for name in COMPARED:
        difference = _difference_of(left / name, right / name)
        if difference is not None:
            return difference
    return None


def _difference_of(left: Path, right: Path) -> str | None:
    with _text(left) as one, _text(right) as other:
        for number, (a, b) in enumerate(zip_longest(one, other), start=1):
            if a != b:
                return (
                    f"{left.name}, line {number}:\n  {left}: {_cut(a, b)}\n  {right}: {_cut(b, a)}"
                )
    return None


def _text(path: Path) -> IO[str]:
    return path.open(encoding="utf-8", errors="backslashreplace")


def _cut(line: str | None, other: str | None) -> str:
    """The part of a long line around its first difference from another."""
    if line is None:
        return "(no such line)"
    pairs = zip_longest(line, other or "")
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), 0)
    return line[max(0, at - 60) : at + 60].rstrip("\n")

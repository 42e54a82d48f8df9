"""Slurm's short form of node names: `n[001-004,7],login1`."""

import re
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final

from shared.domain.errors import RejectedError

# More than any cluster has: who counts nodes keeps a place for each of them.
MOST_NODES: Final = 100_000
# Commas outside of brackets separate; a name is text with any number of bracketed ranges.
_SEPARATOR: Final = re.compile(r",(?![^\[]*\])")
_PART: Final = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def expand(hostlist: str) -> list[str]:
    """Every node by name, in order. Raises RejectedError for what is no host list."""
    names: list[str] = []
    for entry in _SEPARATOR.split(hostlist):
        names += _expand_entry(entry)
        if len(names) > MOST_NODES:
            raise RejectedError("nodes", f"must name at most {MOST_NODES} nodes")
    return names


def _expand_entry(entry: str) -> list[str]:
    parts = list(_PART.finditer(entry))
    if not entry or "".join(part[0] for part in parts) != entry:
        raise RejectedError("nodes", f"must be a host list like n[001-004], got {entry[:40]!r}")
    count, choices = 1, list[Iterable[str]]()
    for bracket, text in (part.groups() for part in parts):
        ranges = [] if bracket is None else [_parsed(found) for found in bracket.split(",")]
        # Counted before anything is expanded: a short list can name more than memory holds.
        count *= sum(len(numbers) for numbers, _ in ranges) or 1
        if count > MOST_NODES:
            raise RejectedError("nodes", f"must name at most {MOST_NODES} nodes")
        choices.append(_names(ranges) if ranges else (text,))
    return ["".join(combination) for combination in product(*choices)]


def _parsed(text: str) -> tuple[range, int]:
    """The numbers of a range and how many digits they have."""
    found = _RANGE.fullmatch(text)
    if not found or int(found[2] or found[1]) < int(found[1]):
        raise RejectedError("nodes", f"must hold ranges like 001-004, got {text[:40]!r}")
    return range(int(found[1]), int(found[2] or found[1]) + 1), len(found[1])


def _names(ranges: Iterable[tuple[range, int]]) -> Iterator[str]:
    return (f"{number:0{digits}d}" for numbers, digits in ranges for number in numbers)

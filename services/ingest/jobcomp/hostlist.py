"""Slurm's short form of node names: `n[001-004,7],login1`."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Final

from shared.domain.errors import RejectedError

_MOST_NODES: Final = 100_000
# Commas outside of brackets separate; a name is text with any number of bracketed ranges.
_SEPARATOR: Final = re.compile(r",(?![^\[]*\])")
_PART: Final = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def expand(hostlist: str) -> list[str]:
    """Every node by name, in order. Raises RejectedError for what is no host list."""
    names: list[str] = []
    for entry in _SEPARATOR.split(hostlist):
        names += _expand_entry(entry)
        if len(names) > _MOST_NODES:
            raise RejectedError("nodes", f"must name at most {_MOST_NODES} nodes")
    return names


def _expand_entry(entry: str) -> list[str]:
    parts = list(_PART.finditer(entry))
    if not entry or "".join(part[0] for part in parts) != entry:
        raise RejectedError("nodes", f"must be a host list like n[001-004], got {entry[:40]!r}")
    choices = [list(_numbers(part[1])) if part[1] is not None else [part[2]] for part in parts]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > _MOST_NODES:
        raise RejectedError("nodes", f"must name at most {_MOST_NODES} nodes")
    return ["".join(combination) for combination in product(*choices)]


def _numbers(ranges: str) -> Iterator[str]:
    for text in ranges.split(","):
        found = _RANGE.fullmatch(text)
        if not found:
            raise RejectedError("nodes", f"must hold ranges like 001-004, got {text[:40]!r}")
        first, last = found[1], found[2] or found[1]
        if int(last) - int(first) >= _MOST_NODES:
            raise RejectedError("nodes", f"must name at most {_MOST_NODES} nodes")
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}d}"

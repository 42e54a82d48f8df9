"""Slurm's short form of node names: `n[001-004,7],login1`."""

import re
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final

from coplace_client.bounds import MOST_NODES
from coplace_client.errors import RejectedError

# As long as Linux lets a host name be; a name that is a part of many decisions stays short.
MOST_NODE_NAME: Final = 64
# What that many nodes fill when each of them is written out, with a comma behind it.
_MOST_TEXT: Final = MOST_NODES * (MOST_NODE_NAME + 1)
# A name is text with any number of bracketed ranges. Possessive: each character is read once.
_ENTRY: Final = re.compile(r"(?:[^,\[\]]++|\[[^\[\]]*+\])++")
_PART: Final = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")

_Ranges = list[tuple[range, int]]


def expand(hostlist: str) -> list[str]:
    """Expand every node by name, in order. Raises RejectedError for an invalid host list.

    Takes time in proportion to the text and the nodes that it names, and refuses too many of
    either before it goes through them.
    """
    _check_text(hostlist)
    names: list[str] = []
    for entry in _entries(hostlist):
        if "[" in entry:
            names += _expand_entry(entry, MOST_NODES - len(names))
        elif len(entry) > MOST_NODE_NAME:
            raise _too_long(entry)
        else:
            names.append(entry)
    if len(names) > MOST_NODES:
        raise _too_many()
    return names


def count_names(hostlist: str) -> int:
    """Return how many names a host list has, copies too, without making them. Raises RejectedError
    as `expand` does."""
    _check_text(hostlist)
    names = 0
    for entry in _entries(hostlist):
        if "[" in entry:
            count, _ = _counted(entry, MOST_NODES - names)
            names += count
        elif len(entry) > MOST_NODE_NAME:
            raise _too_long(entry)
        else:
            names += 1
    if names > MOST_NODES:
        raise _too_many()
    return names


def _check_text(hostlist: str) -> None:
    if len(hostlist) > _MOST_TEXT:
        raise RejectedError("nodes", f"must have at most {_MOST_TEXT} characters")
    if hostlist.count(",") >= MOST_NODES and "[" not in hostlist:
        raise _too_many()
    if not hostlist.isprintable():
        raise RejectedError("nodes", "must be printable")


def _entries(hostlist: str) -> Iterator[str]:
    """Split at the commas outside of brackets."""
    begin, end = 0, len(hostlist)
    while True:
        entry = _ENTRY.match(hostlist, begin)
        if entry is None or (entry.end() < end and hostlist[entry.end()] != ","):
            wrong = hostlist[begin : begin + 40]
            raise RejectedError("nodes", f"must be a host list like n[001-004], got {wrong!r}")
        yield entry[0]
        if entry.end() == end:
            return
        begin = entry.end() + 1


def _expand_entry(entry: str, room: int) -> list[str]:
    """Return the names of one entry, at most `room`."""
    _, choices = _counted(entry, room)
    return ["".join(combination) for combination in product(*choices)]


def _counted(entry: str, room: int) -> tuple[int, list[Iterable[str]]]:
    """Return how many names one entry has, at most `room`, and the choices that make them; counted
    and measured before any is made, since a short list can name more than memory holds."""
    count, length, choices = 1, 0, list[Iterable[str]]()
    for found in _PART.finditer(entry):
        ranges = [] if found[1] is None else _ranges(found[1])
        count *= sum(len(numbers) for numbers, _ in ranges) or 1
        length += max((digits for _, digits in ranges), default=len(found[0]))
        if count > room:
            raise _too_many()
        if length > MOST_NODE_NAME:
            raise _too_long(entry)
        choices.append(_names(ranges) if ranges else (found[0],))
    return count, choices


def _ranges(bracket: str) -> _Ranges:
    if bracket.count(",") >= MOST_NODES:
        raise _too_many()
    return [_parsed(found) for found in bracket.split(",")]


def _parsed(text: str) -> tuple[range, int]:
    """Return the numbers of a range and how many digits they have."""
    found = _RANGE.fullmatch(text)
    if not found or int(found[2] or found[1]) < int(found[1]):
        raise RejectedError("nodes", f"must hold ranges like 001-004, got {text[:40]!r}")
    return range(int(found[1]), int(found[2] or found[1]) + 1), len(found[1])


def _names(ranges: _Ranges) -> Iterator[str]:
    return (f"{number:0{digits}d}" for numbers, digits in ranges for number in numbers)


def _too_many() -> RejectedError:
    return RejectedError("nodes", f"must name at most {MOST_NODES} nodes")


def _too_long(name: str) -> RejectedError:
    problem = f"must be at most {MOST_NODE_NAME} characters each, got {name[:80]!r}"
    return RejectedError("nodes", problem)

"""Node names to host lists: the inverse of `hostlist.expand`.

`n001, n002, n003, n007` become `n[001-003,007]`: as few characters as one varying number a list
allows. Order is kept, so that names stay beside the indices that they belong to.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Final

from coplace_client.errors import RejectedError
from shared.domain.hostlist import expand

# Text and numbers in turn: n1-ib0 is "n", "1", "-ib", "0", "". A number of more digits is text.
_NUMBER: Final = re.compile(r"((?<![0-9])[0-9]{1,9}(?![0-9]))")

# The names of a cluster's nodes, and of those of any job on it, are host lists of at most so many
# bytes: decisions and the states of services hold them beside everything else.
MOST_HOST_LIST_BYTES: Final = 524_288

_DIGITS: Final = "0123456789"
_MOST_DIGITS: Final = 9

_Parts = list[str]


@dataclass(slots=True)
class _Entry:
    """One entry of a host list: names that differ in the number at `place`, None while there is but
    one name."""

    parts: _Parts
    place: int | None = None
    numbers: list[str] = field(default_factory=list)

    def takes(self, parts: _Parts) -> bool:
        """Add a name if it differs in that one number only."""
        place = self.place
        if place is None:
            place = _only_difference(self.parts, parts)
            if place is None:
                return False
            self.place, self.numbers = place, [self.parts[place]]
        elif self.parts[:place] != parts[:place] or self.parts[place + 1 :] != parts[place + 1 :]:
            return False
        self.numbers.append(parts[place])
        return True

    def text(self) -> str:
        """Return the entry as a host list."""
        if self.place is None:
            return "".join(self.parts)
        before, after = "".join(self.parts[: self.place]), "".join(self.parts[self.place + 1 :])
        return f"{before}[{','.join(_ranges(self.numbers))}]{after}"


def fold(names: Iterable[str]) -> list[str]:
    """Fold node names into host lists that name them in this order. Names hold no commas and no
    brackets."""
    entries: list[_Entry] = []
    for name in names:
        parts = _NUMBER.split(name)
        if not entries or not entries[-1].takes(parts):
            entries.append(_Entry(parts))
    return [entry.text() for entry in entries]


def names_of(told: Iterable[str]) -> list[str]:
    """Expand nodes that are given one by one or as host lists; return them as they are where they
    are neither, as where the name of a cluster makes a node's look like a part of a host list."""
    texts = list(told)
    try:
        return expand(",".join(texts))
    except RejectedError:
        return texts


def always_fit(names: Sequence[str]) -> bool:
    """Return whether no decision on some of these nodes has more than MOST_HOST_LIST_BYTES of
    names."""
    if sum(len(name.encode()) + 3 for name in names) <= MOST_HOST_LIST_BYTES:
        return True  # each written out: nothing has to be worked out
    return most_folded_bytes(names) <= MOST_HOST_LIST_BYTES


def most_folded_bytes(names: Sequence[str]) -> int:
    """Return the most bytes that a fold of any of these names, in this order, has with a comma
    behind each entry.

    Names that differ in their last number only and are adjacent begin at most two entries and
    continue at most one of another number. In between each costs its number, and of numbers that
    follow one another two in three at most: runs of two with one left out.
    """
    blocks = groupby(map(_last_number, names), itemgetter(0, 2))
    return sum(
        _most_bytes(len((before + after).encode()), [number for _, number, _ in block])
        for (before, after), block in blocks
    )


def _most_bytes(size: int, numbers: list[str]) -> int:
    """Of one block of names with `size` bytes beside their numbers, which in any case is not longer
    than with each name written out."""
    written = sum(map(len, numbers)) + len(numbers) * (size + 3)
    if len(numbers) == 1 or not numbers[0]:
        return written
    digits = max(map(len, numbers))
    # A range of k numbers that follow one another leaves k + 1 places for a gap.
    costs = sum((2 * (count + 1) + 2) // 3 for count in _run_lengths(numbers))
    return min(written, 3 * (size + digits + 3) + costs * (digits + 1))


def _last_number(name: str) -> tuple[str, str, str]:
    """Split a name into the text before its last number, its digits, and the text behind it; most
    names end in a number."""
    before = name.rstrip(_DIGITS)
    if 0 < len(name) - len(before) <= _MOST_DIGITS:
        return before, name[len(before) :], ""
    *others, number, after = ["", *_NUMBER.split(name)] if _NUMBER.search(name) else [name, "", ""]
    return "".join(others), number, after


def _only_difference(left: _Parts, right: _Parts) -> int | None:
    """Return the place of the only part that differs, if it is a number."""
    if len(left) != len(right):
        return None
    differing = [
        place for place, pair in enumerate(zip(left, right, strict=True)) if len({*pair}) > 1
    ]
    return differing[0] if len(differing) == 1 and differing[0] % 2 else None


def _ranges(numbers: Iterable[str]) -> Iterator[str]:
    for first, last in _runs(numbers):
        yield first if first == last else f"{first}-{last}"


def _run_lengths(numbers: Iterable[str]) -> Iterator[int]:
    return (int(last) - int(first) + 1 for first, last in _runs(numbers))


def _runs(numbers: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield first and last of numbers that follow one another, as `expand` writes them out
    again."""
    first = last = ""
    for number in numbers:
        if last and int(number) == int(last) + 1 and _is_as_wide(number, last):
            last = number
        else:
            if first:
                yield first, last
            first = last = number
    if first:
        yield first, last


def _is_as_wide(number: str, before: str) -> bool:
    """With as many digits, or with one more because it needs it; of 9 digits at most."""
    digits, more = len(number), len(number) - len(before)
    return more == 0 or (more > 0 and number[0] != "0" and digits <= _MOST_DIGITS)

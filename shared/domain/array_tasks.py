"""The tasks of a job array: their indices as ranges, and sets of their ordinals.

The ordinal of a task is its number among the tasks of its array, from 0. Sets of ordinals are kept
as runs, so that an array of a hundred thousand tasks takes as much as an array of one.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain
from math import gcd
from re import compile as pattern
from typing import Final

from coplace_client.errors import RejectedError

MOST_TEXT: Final = 4096
# What is kept of each is bounded by it.
MOST_TASKS: Final = 100_000
# Texts whose indices are cached: the longest take 130 kB each.
_MOST_CACHED: Final = 128
_MOST_INDEX: Final = 2**31 - 1
_BYTES: Final = 4
_ONES: Final = pattern("1+")
_RANGE: Final = pattern(r"(\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?")
# The first ordinal of a run, and the ordinal behind its last.
RunOfOrdinals = tuple[int, int]
Ordinals = tuple[RunOfOrdinals, ...]
NO_ORDINALS: Final[Ordinals] = ()


@dataclass(frozen=True, slots=True)
class TaskIndices:
    """The indices of an array, ascending: `ranges`, each with how many ordinals are before it."""

    ranges: tuple[range, ...]
    before: tuple[int, ...]

    def __len__(self) -> int:
        return self.before[-1] + len(self.ranges[-1])

    def index(self, ordinal: int) -> int:
        """Return the index of the task of an ordinal."""
        number = bisect_right(self.before, ordinal) - 1
        return self.ranges[number][ordinal - self.before[number]]

    def ordinal(self, index: int) -> int | None:
        """Return the ordinal of an index; None where the array has no such task."""
        number = bisect_right(self.ranges, index, key=_first) - 1
        if number < 0 or index not in self.ranges[number]:
            return None
        return self.before[number] + self.ranges[number].index(index)

    def indices(self, ordinals: Ordinals) -> Iterator[range]:
        """Yield the indices of a set of ordinals, ascending."""
        for first, behind in ordinals:
            number = bisect_right(self.before, first) - 1
            while number < len(self.ranges) and self.before[number] < behind:
                before = self.before[number]
                yield self.ranges[number][max(first - before, 0) : behind - before]
                number += 1

    def ordinals(self, indices: range) -> Iterator[RunOfOrdinals]:
        """Yield the ordinals of those of these indices that the array has, ascending."""
        number = max(bisect_right(self.ranges, indices[0], key=_first) - 1, 0)
        while number < len(self.ranges) and self.ranges[number].start <= indices[-1]:
            own, before = self.ranges[number], self.before[number]
            found = _common(own, indices)
            if found:
                first, behind = before + own.index(found[0]), before + own.index(found[-1]) + 1
                step = found.step // own.step
                starts = range(first, behind, step)
                yield from ((first, behind),) if step == 1 else ((n, n + 1) for n in starts)
            number += 1


@lru_cache(maxsize=_MOST_CACHED)
def parse_tasks(text: str) -> TaskIndices:
    """Return the indices that ranges name, such as "0-99" or "1,3,5-9:2". Raises RejectedError."""
    if not text or len(text) > MOST_TEXT:
        raise RejectedError("array", f"must be 1 to {MOST_TEXT:,} characters")
    ranges: list[range] = []
    for part in text.split(","):
        one = _range(part)
        if ranges and one.start <= ranges[-1][-1]:
            raise RejectedError("array", f"must ascend, {part[:40]!r} does not: order its ranges")
        ranges.append(one)
    sizes = [len(each) for each in ranges]
    if sum(sizes) > MOST_TASKS:
        raise RejectedError("array", f"must name at most {MOST_TASKS:,} tasks, got {sum(sizes):,}")
    return TaskIndices(tuple(ranges), tuple(accumulate(sizes[:-1], initial=0)))


def task_id(array_id: str, index: int) -> str:
    """Return the id of the job that a task of an array becomes."""
    return f"{array_id}_{index}"


def as_task(job_id: str) -> tuple[str, int] | None:
    """Return the array and the index that an id would name, if that array exists; None for an id
    that names no task."""
    array_id, underscore, index = job_id.rpartition("_")
    is_index = index.isascii() and index.isdigit() and len(index) <= len(str(_MOST_INDEX))
    if not (array_id and underscore and is_index) or task_id(array_id, int(index)) != job_id:
        return None
    return array_id, int(index)


def with_ordinal(ordinals: Ordinals, ordinal: int) -> Ordinals:
    """Return a set with one more ordinal."""
    at = _run_of(ordinals, ordinal)
    first, behind = ordinals[at] if at >= 0 else (ordinal, ordinal)
    if ordinal < behind:
        return ordinals
    kept, later = ordinals[: at + 1], ordinals[at + 1 :]
    if at >= 0 and behind == ordinal:
        kept = kept[:-1]
    else:
        first = ordinal
    behind = ordinal + 1
    if later and later[0][0] == behind:
        behind, later = later[0][1], later[1:]
    return (*kept, (first, behind), *later)


def without_ordinal(ordinals: Ordinals, ordinal: int) -> Ordinals:
    """Return a set without an ordinal."""
    at = _run_of(ordinals, ordinal)
    if at < 0 or ordinal >= ordinals[at][1]:
        return ordinals
    first, behind = ordinals[at]
    rest = tuple(run for run in ((first, ordinal), (ordinal + 1, behind)) if run[0] < run[1])
    return (*ordinals[:at], *rest, *ordinals[at + 1 :])


def has_ordinal(ordinals: Ordinals, ordinal: int) -> bool:
    """Return whether a set has an ordinal."""
    at = _run_of(ordinals, ordinal)
    return at >= 0 and ordinal < ordinals[at][1]


def count_of(ordinals: Ordinals) -> int:
    """Return how many ordinals a set has."""
    return sum(behind - first for first, behind in ordinals)


def in_both(one: Ordinals, other: Ordinals) -> Ordinals:
    """Return the ordinals that two sets have."""
    return tuple(runs_in_both(one, other))


def runs_in_both(one: Ordinals, other: Ordinals) -> Iterator[RunOfOrdinals]:
    """Yield the ordinals that two sets have, ascending."""
    left, right = 0, 0
    while left < len(one) and right < len(other):
        first = max(one[left][0], other[right][0])
        behind = min(one[left][1], other[right][1])
        if first < behind:
            yield first, behind
        if one[left][1] < other[right][1]:
            left += 1
        else:
            right += 1


def in_either(one: Ordinals, other: Ordinals) -> Ordinals:
    """Return the ordinals that one of two sets has."""
    found: list[RunOfOrdinals] = []
    # Both ascend, which costs a sort as little as a merge.
    for first, behind in sorted(one + other):
        if not found or first > found[-1][1]:
            found.append((first, behind))
        elif behind > found[-1][1]:
            found[-1] = found[-1][0], behind
    return tuple(found)


def of_same_index(own: TaskIndices, other: TaskIndices, ordinals: Ordinals) -> Ordinals:
    """Return the ordinals in an array of those indices that these ordinals have in another one."""
    if own == other:
        return ordinals
    runs = chain.from_iterable(own.ordinals(each) for each in other.indices(ordinals))
    return in_either(tuple(runs), NO_ORDINALS)


def packed(ordinals: Ordinals) -> bytes:
    """Return a set as bytes: its runs, or a bit an ordinal where these are fewer. So no set takes
    more than an eighth of a byte a task."""
    size = ordinals[-1][1] if ordinals else 0
    if 2 * _BYTES * len(ordinals) <= size // 8 + 1:
        numbers = chain.from_iterable(ordinals)
        return b"".join([b"r", *(number.to_bytes(_BYTES, "little") for number in numbers)])
    bits = bytearray(b"0" * size)
    for first, behind in ordinals:
        bits[size - behind : size - first] = b"1" * (behind - first)
    return b"b" + int(bits, 2).to_bytes(size // 8 + 1, "little")


def unpacked(value: bytes) -> Ordinals:
    """Return the set that has these bytes."""
    if value.startswith(b"b"):
        bits = f"{int.from_bytes(value[1:], 'little'):b}"[::-1]
        return tuple(found.span() for found in _ONES.finditer(bits))
    numbers = [
        int.from_bytes(value[at : at + _BYTES], "little") for at in range(1, len(value), _BYTES)
    ]
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _common(one: range, other: range) -> range:
    """Return the numbers that two ascending ranges have."""
    shared = gcd(one.step, other.step)
    apart = other.start - one.start
    if apart % shared:
        return range(0)
    # The least number of steps of the one that lead to a number of the other (Chinese remainders).
    modulus = other.step // shared
    steps = apart // shared * pow(one.step // shared, -1, modulus) % modulus
    start, step = one.start + steps * one.step, one.step * modulus
    start += max(0, -((start - other.start) // step)) * step
    return range(start, min(one.stop, other.stop), step)


def _run_of(ordinals: Ordinals, ordinal: int) -> int:
    """Return the number of the last run that begins not behind an ordinal; -1 where none does."""
    return bisect_right(ordinals, ordinal, key=_first_ordinal) - 1


def _first(indices: range) -> int:
    return indices.start


def _first_ordinal(run: RunOfOrdinals) -> int:
    return run[0]


def _range(part: str) -> range:
    found = _RANGE.fullmatch(part.strip())
    if found is None:
        problem = f"must be ranges such as 0-99 or 1-9:2, got {part[:40]!r}"
        raise RejectedError("array", problem)
    first, last, step = (int(each) if each else None for each in found.groups())
    assert first is not None
    last, step = first if last is None else last, 1 if step is None else step
    if not first <= last <= _MOST_INDEX or not step:
        problem = f"must ascend to at most {_MOST_INDEX:,} by steps of at least 1"
        raise RejectedError("array", f"{problem}, got {part[:40]!r}")
    return range(first, last + 1, step)

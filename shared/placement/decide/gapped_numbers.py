"""Ascending numbers with gaps between them: most stay as they are where others come between."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

# All are above 0 and below this.
MOST: Final = 1 << 36
# Between neighbours, at first.
_STEP: Final = 1 << 16
# The least between neighbours that are numbered anew, so that they are not so again soon.
_LEAST_STEP: Final = 1 << 8


def renumbered(before: Sequence[int]) -> list[int]:
    """Return ascending numbers of which as many as possible are those before; 0 had none."""
    places = [-1, *_ascending(before), len(before)]
    if len(places) == len(before) + 2:
        return [*before]
    numbers, done = [*before], -1
    for at, (left, right) in enumerate(pairwise(places)):
        if right - left > 1 and left >= done:
            done = _fill(numbers, left, places[at + 1 :])
        elif right - left > 1 and right > done:
            done = _fill(numbers, done, places[at + 1 :])
    return numbers


def _fill(numbers: list[int], left: int, rights: Sequence[int]) -> int:
    """Give numbers to what is between places, and to as many neighbours as leaves enough between
    them; return the place behind."""
    wider = 0
    while True:
        first, last = max(left - wider, -1), rights[min(wider, len(rights) - 1)]
        low = numbers[first] if first >= 0 else 0
        high = numbers[last] if last < len(numbers) else MOST
        count, is_all = last - first - 1, first < 0 and last == len(numbers)
        step = (high - low) // (count + 1)
        if is_all or step >= (_LEAST_STEP if wider else 1):
            break
        wider = wider * 2 or 1
    if first < 0 or last == len(numbers):
        step = min(step, _STEP)
    if is_all:
        low = (MOST - step * (count + 1)) // 2
    elif first < 0:
        low = high - step * (count + 1)
    numbers[first + 1 : last] = range(low + step, low + step * (count + 1), step)
    return last


def _ascending(numbers: Sequence[int]) -> list[int]:
    """Return the places of as many numbers as possible that ascend, but of none that is 0 (patience
    sorting: Fredman, "On computing the length of longest increasing subsequences", 1975)."""
    least, places, before = list[int](), list[int](), [-1] * len(numbers)
    for place, number in enumerate(numbers):
        if not number:
            continue
        if not least or number > least[-1]:
            length = len(least)
            least.append(number)
            places.append(place)
        else:
            length = bisect_left(least, number)
            least[length], places[length] = number, place
        before[place] = places[length - 1] if length else -1
    found, place = list[int](), places[-1] if places else -1
    while place >= 0:
        found.append(place)
        place = before[place]
    return found[::-1]

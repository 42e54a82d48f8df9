"""Counts that follow what changes: nobody has to go through all that is counted."""

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Place = TypeVar("_Place", bound=Hashable)


class StateTally(Generic[_Key, _Place]):
    """Counts how many of some things are in each place."""

    def __init__(self) -> None:
        self._places: dict[_Key, _Place] = {}
        self._counts: Counter[_Place] = Counter()

    def note(self, key: _Key, place: _Place | None) -> None:
        """Note where one is now; None: nowhere."""
        before = self._places.pop(key, None)
        if before is not None:
            self._counts[before] -= 1
        if place is not None:
            self._places[key] = place
            self._counts[place] += 1

    def counts(self) -> Mapping[_Place, int]:
        """Return how many are in each place that one was in."""
        return dict(self._counts)

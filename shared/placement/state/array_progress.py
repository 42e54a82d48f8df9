"""How far the tasks of arrays are, and which arrival numbers are theirs."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, NamedTuple

from shared.domain.array_tasks import (
    NO_ORDINALS,
    Ordinals,
    RunOfOrdinals,
    count_of,
    in_both,
    in_either,
    packed,
    runs_in_both,
    unpacked,
    with_ordinal,
    without_ordinal,
)
from shared.streams.state.rows import Form, RowCodec


@dataclass(slots=True)
class ArrayProgress:
    """The tasks of an array by their ordinals. Those that are `left` are in the array; each of the
    others is a job of its own, `completed` or `failed` once it ended. Those that were `dropped`
    failed with the array, and are no jobs. Those that have `begun` started, or ended without. The
    task at ordinal 0 has the arrival number `first_arrival`, and so on.

    `met` are the ordinals for which a dependency of tasks on tasks of the same index is met, by the
    id of the other array.
    """

    first_arrival: int
    left: Ordinals
    completed: Ordinals = NO_ORDINALS
    failed: Ordinals = NO_ORDINALS
    begun: Ordinals = NO_ORDINALS
    met: dict[str, Ordinals] = field(default_factory=dict)
    dropped: Ordinals = NO_ORDINALS

    def take(self, ordinal: int) -> None:
        """Take a task out of the array: it is a job of its own now."""
        self.left = without_ordinal(self.left, ordinal)

    def end(self, ordinal: int, *, completed: bool) -> None:
        """Note that a task ended."""
        self.begin_anew(ordinal)
        self.begun = with_ordinal(self.begun, ordinal)
        if completed:
            self.completed = with_ordinal(self.completed, ordinal)
        else:
            self.failed = with_ordinal(self.failed, ordinal)

    def begin_anew(self, ordinal: int) -> None:
        """Note that a task begins another attempt, if it ended."""
        self.completed = without_ordinal(self.completed, ordinal)
        self.failed = without_ordinal(self.failed, ordinal)

    def drop_left(self) -> None:
        """Let no task that is left in the array start: all of them failed."""
        self.failed = in_either(self.failed, self.left)
        self.begun = in_either(self.begun, self.left)
        self.dropped = in_either(self.dropped, self.left)
        self.left = NO_ORDINALS

    def eligible(self, awaited: Iterable[str], *, is_any: bool) -> Iterator[RunOfOrdinals]:
        """Yield the ordinals that are left and may start: where tasks wait for those of `awaited`
        arrays, the ordinals for which all of these are met, or one where that is enough."""
        met = [self.met.get(array_id, NO_ORDINALS) for array_id in awaited]
        if not met:
            return iter(self.left)
        return runs_in_both(self.left, reduce(in_either if is_any else in_both, met))

    def not_ended(self, tasks: int) -> int:
        """Return how many of the tasks are jobs of their own that have not ended."""
        ended = count_of(self.completed) + count_of(self.failed)
        return tasks - count_of(self.left) - ended


class _KeptProgress(NamedTuple):
    """The progress of an array with its sets as bytes."""

    first_arrival: int
    left: bytes
    completed: bytes
    failed: bytes
    begun: bytes
    met: dict[str, bytes]
    dropped: bytes


def _kept(row: ArrayProgress) -> _KeptProgress:
    met = {array_id: packed(found) for array_id, found in row.met.items()}
    sets = packed(row.left), packed(row.completed), packed(row.failed), packed(row.begun)
    return _KeptProgress(row.first_arrival, *sets, met, packed(row.dropped))


def _restored(kept: _KeptProgress) -> ArrayProgress:
    met = {array_id: unpacked(found) for array_id, found in kept.met.items()}
    done = unpacked(kept.completed), unpacked(kept.failed), unpacked(kept.begun)
    left, dropped = unpacked(kept.left), unpacked(kept.dropped)
    return ArrayProgress(kept.first_arrival, left, *done, met, dropped)


ARRAYS: Final = RowCodec(ArrayProgress, form=Form(_KeptProgress, _kept, _restored))


class ArrivalNumbers(Mapping[int, str]):
    """The jobs by their arrival numbers. Those of tasks that are left in an array lead to the
    array."""

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        # Ascending, the first arrival number of each array, that behind its last, and its id.
        self._firsts: list[int] = []
        self._arrays: list[tuple[int, str]] = []

    def __getitem__(self, arrival: int) -> str:
        found = self._ids.get(arrival) or self._array(arrival)
        if found is None:
            raise KeyError(arrival)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __setitem__(self, arrival: int, job_id: str) -> None:
        self._ids[arrival] = job_id

    def __delitem__(self, arrival: int) -> None:
        del self._ids[arrival]

    def reserve(self, first: int, behind: int, array_id: str) -> None:
        """Give an array the numbers of its tasks."""
        at = bisect_right(self._firsts, first)
        self._firsts.insert(at, first)
        self._arrays.insert(at, (behind, array_id))

    def give_back(self, first: int) -> None:
        """Drop the numbers of the tasks of an array that is known no more."""
        at = bisect_right(self._firsts, first) - 1
        del self._firsts[at], self._arrays[at]

    def _array(self, arrival: int) -> str | None:
        at = bisect_right(self._firsts, arrival) - 1
        if at < 0:
            return None
        behind, array_id = self._arrays[at]
        return array_id if arrival < behind else None

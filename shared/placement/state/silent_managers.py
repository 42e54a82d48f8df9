"""Which resource managers are silent, by their clusters: a fold over what they say of themselves.

A manager is heard when a round has its word, by the clock that ends rounds: its own clock may be
wrong. A cluster of which no manager ever said so is not judged.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from math import inf
from typing import Final, NamedTuple

from coplace.v1.control_pb2 import ManagerAlive

from coplace_client.errors import RejectedError
from shared.placement.state.closure import Closure
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.rows import RowCodec
from shared.streams.state.state import State

_TABLE: Final = "managers"
# It is heard to the very end of its time; round times are microseconds.
_LATER_S: Final = 1e-3
# Managers of one cluster that are remembered: one, its successors, and some mistakes.
_MOST_MANAGERS: Final = 8


class LastWord(NamedTuple):
    """The last word of a manager on a cluster: when it says that it was said, when a round had it,
    None until that ends, and after how long without another the manager is silent. `is_over` once
    the cluster was undeclared: the word is remembered, so that a copy of it says nothing."""

    manager: str
    said_us: int
    heard_s: float | None
    silent_after_s: float
    is_over: bool = False

    @property
    def silent_from_s(self) -> float:
        """Return when the manager is silent unless it speaks again."""
        return inf if self.heard_s is None else self.heard_s + self.silent_after_s + _LATER_S

    def heard(self, now_s: float) -> "LastWord":
        """Return the word as of the end of a round; one from a clock ahead was said then."""
        said_us = min(self.said_us, round(now_s * 1e6))
        return self._replace(said_us=said_us, heard_s=min(self.heard_s or now_s, now_s))


# Of one cluster, the newest first.
LastWords = tuple[LastWord, ...]
# Words of version 1 are of clusters that are declared.
_WORDS: Final = RowCodec(LastWords, version=2, previous=RowCodec(LastWords).decode)


class SilentManagers:
    """Keeps the last words on each cluster that is declared. `silent` is as of the round that ended
    last: the clusters all of whose managers are silent, since when, and who was the last."""

    def __init__(self, state: State, declared: Callable[[], Container[str]]) -> None:
        self._declared = declared
        self._rows = state.table(_TABLE, _WORDS)
        self.silent: Mapping[str, Closure] = {}

    def hear(self, message: ManagerAlive) -> None:
        """Take a word in, of those of its clusters that are declared.

        Raises RejectedError where none is, AlreadyAppliedError for a copy.
        """
        declared = [name for name in message.clusters if name in self._declared()]
        if not declared:
            raise RejectedError("clusters", f"{message.clusters[0][:80]!r} is not declared")
        newer = [name for name in declared if self._said_us(name, message) < message.alive_at_us]
        if not newer:
            raise AlreadyAppliedError(message.manager)
        word = LastWord(message.manager, message.alive_at_us, None, message.silent_after_s)
        for name in newer:
            others = [each for each in self._words(name) if each.manager != message.manager]
            self._rows.put(name, (word, *others[: _MOST_MANAGERS - 1]))

    def _words(self, cluster: str) -> LastWords:
        return self._rows.get(cluster) or ()

    def _said_us(self, cluster: str, message: ManagerAlive) -> int:
        """Return when the manager last spoke by its own clock: that of another counts for
        nothing."""
        own = (each.said_us for each in self._words(cluster) if each.manager == message.manager)
        return next(own, 0)

    def begin_round(self, now_s: float) -> bool:
        """Note what was heard, and who is silent by now; True where that are others than before."""
        for cluster, words in list(self._rows.items()):
            if any(each.heard_s is None for each in words):
                heard = [each.heard(now_s) if each.heard_s is None else each for each in words]
                self._rows.put(cluster, tuple(heard))
        before = self.silent
        self.silent = {
            cluster: Closure(each.silent_from_s, silent_manager=each.manager)
            for cluster, each in self._last()
            if each.silent_from_s <= now_s
        }
        return before != self.silent

    def close(self, cluster: str) -> None:
        """Judge a cluster no more that was undeclared."""
        if words := self._words(cluster):
            self._rows.put(cluster, tuple(each._replace(is_over=True) for each in words))

    def due_s(self) -> Iterator[float]:
        """Yield when managers that were heard are silent."""
        for cluster, each in self._last():
            if cluster not in self.silent:
                yield each.silent_from_s

    def _last(self) -> Iterator[tuple[str, LastWord]]:
        """Yield of each cluster the word that holds the longest."""
        for cluster, words in self._rows.items():
            if in_force := [each for each in words if not each.is_over]:
                yield cluster, max(in_force, key=lambda each: each.silent_from_s)


def repair(state: State, now_us: int) -> None:
    """Set words that a wrong clock dated to the future to now."""
    rows = state.table(_TABLE, _WORDS)
    for cluster, words in list(rows.items()):
        brought_back = tuple(each.heard(now_us / 1e6) for each in words)
        if brought_back != words:
            rows.put(cluster, brought_back)

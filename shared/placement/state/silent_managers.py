"""Which resource managers are silent, by their clusters: a fold over what they say of themselves.

A manager is heard when a round has its word, by the clock that ends rounds: its own clock may be
wrong. A cluster of which no manager ever said so is not judged.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Final, NamedTuple

from coplace.v1.control_pb2 import ManagerAlive

from coplace_client.errors import RejectedError
from shared.placement.state.closure import Closure
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.state import State

_TABLE: Final = "managers"
# It is heard to the very end of its time; round times are microseconds.
_LATER_S: Final = 1e-3


class LastWord(NamedTuple):
    """The last word on a cluster: whose, when it says that it was said, when a round had it, and
    after how long without another the manager is silent."""

    manager: str
    said_us: int
    heard_s: float
    silent_after_s: float

    @property
    def silent_from_s(self) -> float:
        """Return when its manager is silent unless it speaks again."""
        return self.heard_s + self.silent_after_s + _LATER_S


class SilentManagers:
    """Keeps the last word on each cluster that is declared. `silent` is as of the round that ended
    last, with when each manager fell silent."""

    def __init__(self, state: State, declared: Callable[[], Container[str]]) -> None:
        self._declared = declared
        self._rows = state.table(_TABLE, LastWord)
        # What was said since a round ended: heard at the end of the next.
        self._said: dict[str, ManagerAlive] = {}
        self.silent: Mapping[str, Closure] = {}

    def hear(self, message: ManagerAlive) -> None:
        """Take a word in, of those of its clusters that are declared.

        Raises RejectedError where none is, AlreadyAppliedError for a copy.
        """
        declared = [name for name in message.clusters if name in self._declared()]
        if not declared:
            raise RejectedError("clusters", f"{message.clusters[0][:80]!r} is not declared")
        newer = [name for name in declared if self._last_us(name) < message.alive_at_us]
        if not newer:
            raise AlreadyAppliedError(message.manager)
        self._said.update(dict.fromkeys(newer, message))

    def _last_us(self, cluster: str) -> int:
        if cluster in self._said:
            return self._said[cluster].alive_at_us
        known = self._rows.get(cluster)
        return known.said_us if known else 0

    def begin_round(self, now_s: float) -> bool:
        """Note what was heard, and who is silent by now; True where that are others than before."""
        ended_us = round(now_s * 1e6)
        for cluster, word in sorted(self._said.items()):
            said_us = min(word.alive_at_us, ended_us)
            heard = LastWord(word.manager, said_us, now_s, word.silent_after_s)
            self._rows.put(cluster, heard)
        self._said.clear()
        before = self.silent
        self.silent = {
            cluster: Closure(each.silent_from_s, silent_manager=each.manager)
            for cluster, each in self._rows.items()
            if each.silent_from_s <= now_s
        }
        return before != self.silent

    def forget(self, cluster: str) -> None:
        """Forget a cluster that was undeclared."""
        self._said.pop(cluster, None)
        self._rows.drop(cluster)

    def due_s(self) -> Iterator[float]:
        """Yield when managers that were heard are silent."""
        for cluster, each in self._rows.items():
            if cluster not in self.silent:
                yield each.silent_from_s

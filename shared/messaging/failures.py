"""How often what fails was seen, in a form that survives the process."""

from collections.abc import Callable
from typing import Final, NamedTuple

import orjson

from shared.messaging.quarantine import Fault

DEFAULT_AFTER: Final = 3
_MOST_COUNTED: Final = 16


class Seen(NamedTuple):
    """How often a failure was seen, and where the last time: a place and offset, or a round."""

    times: int
    topic: str
    kafka_partition: int
    number: int


class Failures:
    """Failures by the digest of their fault, since what failed was last passed."""

    def __init__(self, kept: bytes | str | None) -> None:
        found = orjson.loads(kept or b"{}")
        self._seen = {digest: Seen(*seen) for digest, seen in found.items()}

    def __bool__(self) -> bool:
        return bool(self._seen)

    def recur(self, after: int) -> bool:
        """Whether one was seen so often that restarts do not help; never with `after` 0."""
        return after > 0 and any(seen.times >= after for seen in self._seen.values())

    def count(self, error: Exception, topic: str, kafka_partition: int, number: int) -> None:
        """One more; the oldest of too many kinds are forgotten."""
        digest = Fault.of(error).digest
        before = self._seen.pop(digest, None)
        times = before.times + 1 if before else 1
        newest = [*self._seen.items(), (digest, Seen(times, topic, kafka_partition, number))]
        self._seen = dict(newest[-_MOST_COUNTED:])

    def forget(self, is_passed: Callable[[Seen], bool]) -> bool:
        """Forget those whose place is passed; whether there were any."""
        kept = {digest: seen for digest, seen in self._seen.items() if not is_passed(seen)}
        is_changed = len(kept) != len(self._seen)
        self._seen = kept
        return is_changed

    @property
    def kept(self) -> bytes | None:
        """What to keep beside the state they were met in; None: nothing."""
        seen = {digest: tuple(seen) for digest, seen in self._seen.items()}
        return orjson.dumps(seen) if seen else None

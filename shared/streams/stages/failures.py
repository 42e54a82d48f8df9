"""How often what fails was seen, in a form that survives the process."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import orjson

from shared.catalogue.record import TopicPartition
from shared.streams.stages.quarantine import Fault

DEFAULT_AFTER: Final = 3
_MOST_COUNTED: Final = 16


class Seen(NamedTuple):
    """How often something was seen, and where the last time: a partition and an offset, or, with
    no topic, a round."""

    times: int
    topic: str
    kafka_partition: int
    number: int


class _Counts:
    """What was seen since its place was passed."""

    def __init__(self, kept: bytes | str | None) -> None:
        found = orjson.loads(kept or b"{}")
        self._seen = {name: Seen(*seen) for name, seen in found.items()}

    def __bool__(self) -> bool:
        return bool(self._seen)

    def forget(self, is_passed: Callable[[Seen], bool]) -> bool:
        """Forget those whose place is passed; whether there were any."""
        kept = {name: seen for name, seen in self._seen.items() if not is_passed(seen)}
        is_changed = len(kept) != len(self._seen)
        self._seen = kept
        return is_changed

    @property
    def kept(self) -> bytes | None:
        """Return what to keep beside the state they were met in; None: nothing."""
        seen = {name: tuple(seen) for name, seen in self._seen.items()}
        return orjson.dumps(seen) if seen else None


class Failures(_Counts):
    """Errors that ended the process, by the digest of their fault."""

    def recur(self, after: int) -> bool:
        """Return whether one was seen so often that restarts do not help; never with `after` 0."""
        return after > 0 and any(seen.times >= after for seen in self._seen.values())

    def count(self, error: Exception, topic: str, kafka_partition: int, number: int) -> None:
        """Count one more; the oldest of too many kinds are forgotten."""
        digest = Fault.from_error(error).digest
        before = self._seen.pop(digest, None)
        times = before.times + 1 if before else 1
        newest = [*self._seen.items(), (digest, Seen(times, topic, kafka_partition, number))]
        self._seen = dict(newest[-_MOST_COUNTED:])


class Beginnings(_Counts):
    """How many lives in a row began at one record of a partition, or with one round, and have not
    passed it. Of a process that was killed nothing else is left."""

    def __init__(self, kept: bytes | str | None, after: int) -> None:
        super().__init__(kept)
        self._begun: set[TopicPartition] = set()
        self._fatal = {
            TopicPartition(seen.topic, seen.kafka_partition)
            for seen in self._seen.values()
            if 0 < after <= seen.times
        }

    def begin(self, at: Mapping[TopicPartition, int]) -> bool:
        """Note where this life begins; whether that has to be kept before it does."""
        fresh = {partition: at[partition] for partition in at if partition not in self._begun}
        for partition, number in fresh.items():
            before = self._seen.get(_name(partition))
            times = before.times + 1 if before and before.number == number else 1
            self._seen[_name(partition)] = Seen(times, *partition, number)
        self._begun |= fresh.keys()
        return bool(fresh)

    def may_be_fatal(self, at: Mapping[TopicPartition, int]) -> bool:
        """Return whether so many lives may have ended there that restarts do not help."""
        return not self._fatal.isdisjoint(at)

    def forget(self, is_passed: Callable[[Seen], bool]) -> bool:
        """Forget what is older, as `_Counts.forget` does."""
        is_changed = super().forget(is_passed)
        self._fatal = {partition for partition in self._fatal if _name(partition) in self._seen}
        return is_changed

    @property
    def are_fatal(self) -> bool:
        """Return whether there is any place where `may_be_fatal` is true."""
        return bool(self._fatal)


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}/{partition.kafka_partition}"

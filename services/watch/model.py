"""Decisions as they are kept, and what of them a watcher gets: pure."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from typing import Final, Protocol

from coplace.v1.placement_pb2 import VERDICT_HELD, VERDICT_QUEUED, PlacementDecided, Verdict

from shared.clients.asked import is_asked, is_own

_WAITING: Final = (VERDICT_QUEUED, VERDICT_HELD)
# What one takes beside its bytes.
_ENTRY_BYTES: Final = 600
# Read entries lie before those that are kept, until they are as many.
_LEAST_TRIMMED: Final = 1_024

# Whose a job is; empty where that is not known.
UserByJob = Mapping[str, str]


@dataclass(slots=True)
class LoggedDecision:
    """A decision where it lies, with what says whom it is for. `payload` is its message, None once
    it is kept no longer."""

    kafka_partition: int
    offset: int
    written_ms: int
    job_id: str
    cluster: str
    verdict: Verdict.ValueType
    payload: bytes | None
    # As they were read, over all Kafka partitions; the ring counts them.
    number: int = 0
    # The cursor behind this one, once somebody needs it.
    cursor: str = ""

    @classmethod
    def from_bytes(
        cls, kafka_partition: int, offset: int, written_ms: int, value: bytes
    ) -> "LoggedDecision":
        """Read one from its record. Raises DecodeError."""
        read = PlacementDecided.FromString(value)
        whom = (read.job_id, read.cluster, read.verdict)
        return cls(kafka_partition, offset, written_ms, *whom, value)


class Watched(Protocol):
    """Whose decisions somebody watches."""

    @property
    def keys(self) -> Sequence[str]:
        """Return the keys of all that may concern it, of those that a decision has."""

    def concerns(self, decision: LoggedDecision, users: UserByJob) -> bool:
        """Return whether a decision is handed over."""


@dataclass(frozen=True, slots=True)
class WatchedManager:
    """A resource manager: what it is to obey, and where it wants so that its own jobs wait."""

    site: str
    clusters: frozenset[str]
    with_waiting: bool

    @property
    def keys(self) -> Sequence[str]:
        """Return the clusters, and what the ids of its jobs begin with."""
        return [key for each in self.clusters for key in (_on(each), _of(f"{self.site}/{each}/"))]

    def concerns(self, decision: LoggedDecision, users: UserByJob) -> bool:
        """Return whether it is to obey it, or wants to know."""
        if decision.verdict in _WAITING:
            return self.with_waiting and is_own(decision.job_id, self.site, self.clusters)
        return is_asked(decision, self.site, self.clusters)


@dataclass(frozen=True, slots=True)
class WatchedUser:
    """Who submitted jobs: all that is decided on these."""

    user: str
    with_waiting: bool

    @property
    def keys(self) -> Sequence[str]:
        """Return the user."""
        return [_by(self.user)]

    def concerns(self, decision: LoggedDecision, users: UserByJob) -> bool:
        """Return whether the job is the user's."""
        is_wanted = self.with_waiting or decision.verdict not in _WAITING
        return is_wanted and users.get(decision.job_id) == self.user


def keys_of(decision: LoggedDecision, users: UserByJob) -> Iterator[str]:
    """Yield the keys of all whom a decision may concern."""
    if decision.cluster:
        yield _on(decision.cluster)
    else:
        job_id = decision.job_id
        yield from (_of(job_id[: at + 1]) for at, sign in enumerate(job_id) if sign == "/")
    if user := users.get(decision.job_id):
        yield _by(user)


def _on(cluster: str) -> str:
    return f"on {cluster}"


def _of(beginning: str) -> str:
    return f"of {beginning}"


def _by(user: str) -> str:
    return f"by {user}"


@dataclass(slots=True)
class _Kept:
    """Those of one Kafka partition; `offsets` beside them, to be searched."""

    decisions: list[LoggedDecision] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    first: int = 0

    def append(self, decision: LoggedDecision) -> None:
        self.decisions.append(decision)
        self.offsets.append(decision.offset)

    def drop_oldest(self) -> LoggedDecision:
        oldest = self.decisions[self.first]
        self.first += 1
        if self.first >= max(_LEAST_TRIMMED, len(self.offsets) // 2):
            del self.decisions[: self.first], self.offsets[: self.first]
            self.first = 0
        return oldest

    def since(self, offset: int) -> Iterator[LoggedDecision]:
        begin = bisect_left(self.offsets, offset, self.first)
        return islice(self.decisions, begin, None)


class DecisionRing:
    """The newest decisions, at most so many bytes. Behind `begins` it has all of each Kafka
    partition, up to `ends`."""

    def __init__(self, most_bytes: int, offsets: Sequence[int]) -> None:
        self.begins = list(offsets)
        self.ends = list(offsets)
        self.bytes = 0
        self._most_bytes = most_bytes
        self._kept = [_Kept() for _ in offsets]
        # The Kafka partition of each, the oldest first.
        self._order: deque[int] = deque()
        self._number = 0

    @property
    def middle(self) -> int:
        """Return the number of the decision in the middle, 0 while there is much room."""
        is_full = 4 * self.bytes > 3 * self._most_bytes
        return self._number - len(self._order) // 2 if is_full else 0

    def append(self, decision: LoggedDecision) -> None:
        """Take the next decision that was read; the oldest ones leave."""
        self._number += 1
        decision.number = self._number
        place = decision.kafka_partition
        self.ends[place] = decision.offset + 1
        self._kept[place].append(decision)
        self._order.append(place)
        self.bytes += _size(decision)
        while self.bytes > self._most_bytes:
            self._drop_oldest()

    def advance(self, offsets: Sequence[int]) -> None:
        """Note that all up to there was read."""
        self.ends = _furthest(self.ends, offsets)

    def covers(self, offsets: Sequence[int]) -> bool:
        """Return whether all behind these offsets is here."""
        return all(map(int.__ge__, offsets, self.begins))

    def since(self, offsets: Sequence[int], most: int) -> Sequence[LoggedDecision]:
        """Return the first decisions behind these offsets, in the order in which they were
        read."""
        each = (kept.since(offset) for kept, offset in zip(self._kept, offsets, strict=True))
        return list(islice(merge(*each, key=lambda decision: decision.number), most))

    def _drop_oldest(self) -> None:
        place = self._order.popleft()
        oldest = self._kept[place].drop_oldest()
        self.begins[place] = oldest.offset + 1
        self.bytes -= _size(oldest)
        oldest.payload = None


def _size(decision: LoggedDecision) -> int:
    return _ENTRY_BYTES + len(decision.payload or b"")


def _furthest(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return list(map(max, one, other))


class Watcher:
    """One stream: where it is while it catches up, and what waits for it once it has."""

    def __init__(self, watched: Watched, offsets: Sequence[int], most_waiting: int) -> None:
        self.watched = watched
        self.offsets = list(offsets)
        """Behind these nothing was handed over before it had caught up."""
        self.waiting: deque[LoggedDecision] = deque()
        self.has_fallen_behind = False
        self.is_slow = False
        """Nobody waits for it any more, until it has taken what waits."""
        self._most_waiting = most_waiting

    def is_pressed(self, middle: int) -> bool:
        """Return whether half of what may wait does, or what waits is as old as the middle of the
        ring."""
        waiting = self.waiting
        is_long = 2 * len(waiting) > self._most_waiting
        return is_long or (bool(waiting) and waiting[0].number < middle)

    def pass_by(self, decision: LoggedDecision) -> None:
        """Go on behind a decision."""
        place = decision.kafka_partition
        self.offsets[place] = max(self.offsets[place], decision.offset + 1)

    def advance(self, offsets: Sequence[int]) -> None:
        """Go on behind these."""
        self.offsets = _furthest(self.offsets, offsets)

    def offer(self, decision: LoggedDecision) -> bool:
        """Let a decision wait where it is behind its cursor; return whether it does."""
        if decision.offset < self.offsets[decision.kafka_partition]:
            return False
        if len(self.waiting) >= self._most_waiting:
            self.has_fallen_behind = True
            self.waiting.clear()
            return False
        self.waiting.append(decision)
        return True

    def next(self) -> LoggedDecision | None:
        """Return what waits first, None where nothing does, or it has fallen behind."""
        if not self.waiting:
            return None
        first = self.waiting.popleft()
        self.is_slow = self.is_slow and bool(self.waiting)
        if first.payload is None:
            self.has_fallen_behind = True
            return None
        return first


class Watchers:
    """Those that have caught up, by what may concern them."""

    def __init__(self) -> None:
        # Watchers keep the order in which they came.
        self._by_key: dict[str, dict[Watcher, None]] = {}

    def add(self, watcher: Watcher) -> None:
        """Let one have what comes from now on."""
        for key in watcher.watched.keys:
            self._by_key.setdefault(key, {})[watcher] = None

    def remove(self, watcher: Watcher) -> None:
        """Let one have nothing any more."""
        for key in watcher.watched.keys:
            found = self._by_key.get(key, {})
            found.pop(watcher, None)
            if not found:
                self._by_key.pop(key, None)

    def offer(self, decision: LoggedDecision, users: UserByJob) -> Sequence[Watcher]:
        """Let a decision wait for all whom it concerns; return those that have to do with it now:
        they have it, or have fallen behind."""
        found: dict[Watcher, None] = {}
        for key in keys_of(decision, users):
            found |= self._by_key.get(key, {})
        return [
            each
            for each in found
            if each.watched.concerns(decision, users)
            and (each.offer(decision) or each.has_fallen_behind)
        ]

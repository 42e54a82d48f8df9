"""Facts that came before what they are about: kept until that comes, or for long enough.

Partitions, mirrors and clients of their own let the end of a job overtake its submission. How long
a fact is kept counts from the round that brought it, so that its own time does not matter; and it
has a while behind the first round in which that is over, since all may have stopped with it.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from coplace.v1.control_pb2 import DeadLetter, EarlyFact

from shared.catalogue.record import Record, TopicPartition
from shared.streams.stages.dead_letters import KEPT_BYTES, letter_of
from shared.streams.state.rows import rows_of
from shared.streams.state.state import State, key_of

_TABLE: Final = "early"
PREFIX: Final = key_of(_TABLE, "")
# A cut of a day is made up for; what is older was about nothing.
KEPT_US: Final = 86_400_000_000
# What was under way when everything was switched off comes within so long of the first round.
AWAITED_US: Final = 3_600_000_000
MOST_OF_A_JOB: Final = 64
MOST: Final = 10_000
MOST_BYTES: Final = 64 * 2**20


class EarlyFacts:
    """The early facts of one unit, each a row of its state. Bounded in number, size and age; what
    does not fit, or was early for too long, is left to become a dead letter."""

    def __init__(self, restored: Mapping[str, bytes]) -> None:
        own = {key: value for key, value in restored.items() if key.startswith(PREFIX)}
        self._state = State(own)
        self._rows = self._state.table(_TABLE, EarlyFact)
        self._of_jobs: dict[str, set[str]] = defaultdict(set)
        self._new: dict[str, EarlyFact] = {}
        self._size_bytes = self._due_us = 0
        for key, fact in self._rows.items():
            self._add(key, fact)
        self._look_ahead()

    def keep(self, job_id: str, record: Record, reason: str, stage: str) -> bool:
        """Keep a record that is early for this reason; return False where there are too many."""
        if self._is_full(job_id, record):
            return False
        key = _key(job_id, record)
        fact = EarlyFact(job_id=job_id, letter=letter_of(record, reason, stage))
        self._rows.put(key, fact)
        self._add(key, fact)
        return True

    def __len__(self) -> int:
        return len(self._rows)

    def jobs(self) -> list[str]:
        """Return those of which something waits."""
        return sorted(self._of_jobs)

    def of(self, job_id: str) -> list[Record]:
        """Return the records that wait for facts about a job, in the order of partitions and
        offsets."""
        return [_record(self._rows[key].letter) for key in sorted(self._of_jobs.get(job_id, ()))]

    def drop(self, job_id: str, record: Record) -> None:
        """Forget that a fact is early."""
        self._remove(_key(job_id, record))

    @property
    def due_us(self) -> int:
        """Return when the first has been early for too long; 0 when none will."""
        return self._due_us

    def is_due(self, now_us: int) -> bool:
        """Return whether something has been early for too long."""
        return 0 < self._due_us <= now_us

    def end_round(self, now_us: int, *, is_last: bool) -> list[DeadLetter]:
        """Forget what has been early for too long, or all that is left when no round follows; what
        came in this round arrived now."""
        if not (self._new or is_last or self.is_due(now_us)):
            return []
        for key, fact in self._new.items():
            fact.arrived_us = now_us
            self._rows.changed(key)
        self._new.clear()
        letters = list[DeadLetter]()
        for key, fact in self._rows.items():
            is_due = _due_us(fact) <= now_us
            if is_last or (is_due and fact.overdue_us):
                self._remove(key)
                letters.append(fact.letter)
            elif is_due:
                fact.overdue_us = now_us
                self._rows.changed(key)
        self._look_ahead()
        return letters

    def changes(self) -> dict[str, bytes | None]:
        """Return rows that changed since the last call; None for those that were dropped."""
        return self._state.changes()

    def _look_ahead(self) -> None:
        """Note when the first fact is overdue, or expires; 0 when none will."""
        due_us = (_due_us(fact) for fact in self._rows.values() if fact.arrived_us)
        self._due_us = min(due_us, default=0)

    def _is_full(self, job_id: str, record: Record) -> bool:
        size_bytes = len(record.value or b"")
        return (
            size_bytes > KEPT_BYTES
            or self._size_bytes + size_bytes > MOST_BYTES
            or len(self) >= MOST
            or len(self._of_jobs.get(job_id, ())) >= MOST_OF_A_JOB
        )

    def _add(self, key: str, fact: EarlyFact) -> None:
        self._of_jobs[fact.job_id].add(key)
        if not fact.arrived_us:
            self._new[key] = fact
        self._size_bytes += fact.letter.value_size_bytes

    def _remove(self, key: str) -> None:
        fact = self._rows.drop(key)
        assert fact is not None
        self._new.pop(key, None)
        self._size_bytes -= fact.letter.value_size_bytes
        self._of_jobs[fact.job_id].discard(key)
        if not self._of_jobs[fact.job_id]:
            del self._of_jobs[fact.job_id]


def job_of(value: bytes) -> str:
    """Return the job that a row of the changelog is about."""
    return rows_of(EarlyFact).decode(value).job_id


def _due_us(fact: EarlyFact) -> int:
    """Return when a fact is overdue, and when it was that, when it expires."""
    if fact.overdue_us:
        return fact.overdue_us + AWAITED_US
    return fact.arrived_us + KEPT_US


def _key(job_id: str, record: Record) -> str:
    partition = record.partition
    return f"{job_id}|{partition.topic}|{partition.kafka_partition}|{record.offset:020d}"


def _record(letter: DeadLetter) -> Record:
    partition = TopicPartition(letter.topic, letter.kafka_partition)
    headers = tuple(sorted(letter.headers.items()))
    return Record(partition, letter.offset, letter.key, letter.value, headers)

"""The sans-IO core of every driver: records in; outputs, state changes and positions out.

A unit is one processor with the partitions that it owns. Rounds are aligned as in the asynchronous
barrier snapshots of Carbone et al., "Lightweight Asynchronous Snapshots for Distributed Dataflows"
(2015), algorithm 1: a partition that has delivered the barrier of the open round is held until
every partition has. Its position stays at the barrier meanwhile, so that a restart reads the
barrier again and nothing but the last closed round has to be kept.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coplace.v1.control_pb2 import RoundEnded, WakeWanted
from google.protobuf.message import Message

from coplace_client.clock import TOLERANCE_US
from coplace_client.errors import RejectedError
from shared.catalogue.codec import Codec, OversizeError, count_unknown_fields, is_barrier
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.catalogue.subjects import is_awaited_by_all, job_of
from shared.catalogue.times import time_fields
from shared.catalogue.topics import ROUND_ENDED, Topics
from shared.domain.rounds import RoundSource
from shared.streams.stages.barriers import check_number, check_time, check_writer
from shared.streams.stages.consumption import Skipping
from shared.streams.stages.dead_letters import dead_letter, posted, quarantine
from shared.streams.stages.early import EarlyFacts
from shared.streams.stages.hooks import Hooks, Tally
from shared.streams.stages.outcomes import Command, Outcomes
from shared.streams.stages.quarantine import Blame, Isolating, identify
from shared.streams.stages.stage import (
    AlreadyAppliedError,
    EarlyError,
    OvertakenError,
    Round,
    Stage,
    Waking,
)
from shared.streams.stages.unit_state import (
    ROUND_KEY,
    WAKE_KEY,
    closed_round,
    heard_of,
    processor_state,
)

# The key of what is wanted of the one writer of a region's rounds.
_REGION_KEY = "region"
# What is due and stays due is looked at so often, not in each round.
_LEAST_WAKE_US = 1_000_000
_DAY_US = 86_400_000_000
_VIRTUAL_EPOCH_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z


@dataclass(frozen=True, slots=True)
class EventTimeLimit:
    """Events that lie further ahead are refused: one of them would drag the clock of a fold along.

    Ahead of what: the wall clock; where there is none the last closed round's end, and `origin_us`
    before there is one.
    """

    origin_us: int = _VIRTUAL_EPOCH_US
    ahead_us: int = 366 * _DAY_US
    round_ahead_us: int = TOLERANCE_US
    """How far the clocks of two machines may differ: a round that ended later is not believed."""
    command_ahead_us: int = 366 * _DAY_US
    """For commands, at the door: of two the newer counts, and one from a clock ahead would be that
    for long. Stages take what a door took: their own clocks may be behind."""

    @classmethod
    def from_wall_clock(cls, origin_us: int = 0) -> "EventTimeLimit":
        """Return a limit of a day ahead of the clock: in production no event lies in the future.
        The default's year is for emulated runs, where a round may skip the days in which nothing
        happens."""
        return cls(origin_us, _DAY_US, command_ahead_us=TOLERANCE_US)

    def check(self, event: Event, *reached_us: int) -> None:
        """Raise RejectedError when the event lies too far ahead of what time has reached."""
        latest_us = max(self.origin_us, *reached_us) + self.ahead_us
        for name, time_us in _times(event):
            if time_us > latest_us:
                raise RejectedError(name, f"is {time_us} us, the latest now is {latest_us}")
            if time_us < 0:
                raise RejectedError(name, f"must not lie before 1970, got {time_us} us")


def _times(event: Event) -> Iterator[tuple[str, int]]:
    """Yield when the event says that something happened, by field."""
    yield "ce_time", event.time_us
    for name in time_fields(event.payload.DESCRIPTOR):
        yield name, getattr(event.payload, name)


def _nobody() -> None:
    """Ignore what is reported."""


@dataclass(slots=True)
class Commit:
    """What belongs into one transaction."""

    outputs: list[NewRecord] = field(default_factory=list)
    changelog: dict[str, bytes | None] = field(default_factory=dict)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    last_read: dict[TopicPartition, Record] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to write."""
        return not (self.outputs or self.changelog or self.positions)

    def add(self, later: "Commit") -> None:
        """Let a later commit share this one's transaction."""
        self.outputs += later.outputs
        self.changelog |= later.changelog
        self.positions |= later.positions
        self.last_read |= later.last_read
        self.tally.add(later.tally)


def unit_count(stage: Stage, topics: Topics) -> int:
    """Return how many units a stage has.

    Raises ValueError when the topics of a keyed stage differ in their number of partitions.
    """
    if stage.single:
        return 1
    counts = {name: topics.kafka_partitions(name) for name in (*stage.inputs, *stage.outputs)}
    if len(set(counts.values())) != 1:
        raise ValueError(f"the topics of keyed stage {stage.name} must have equal counts: {counts}")
    return next(iter(counts.values()))


def unit_partitions(
    names: tuple[str, ...], stage: Stage, number: int, topics: Topics
) -> list[TopicPartition]:
    """Return the partitions of these topics that belong to one unit of a stage."""
    if stage.single:
        return [partition for name in names for partition in topics.partitions(name)]
    return [TopicPartition(name, number) for name in names]


class Unit:
    """One processor at work. `restored` is the state that earlier commits left in the changelog,
    `blame` what is left out since it made others of this unit fail."""

    def __init__(
        self,
        stage: Stage,
        number: int,
        restored: Mapping[str, bytes],
        codec: Codec,
        limit: EventTimeLimit | None = None,
        hooks: Hooks | None = None,
        blame: Blame | None = None,
    ) -> None:
        self.stage = stage
        self.number = number
        self.partitions = tuple(unit_partitions(stage.inputs, stage, number, codec.topics))
        self._own_partitions = unit_partitions(stage.outputs, stage, number, codec.topics)
        self._barrier_partitions = self._own_partitions if stage.puts_barriers else []
        topics = codec.topics
        marked = tuple(each for each in stage.outputs if ROUND_ENDED in topics.spec(each).messages)
        self._marked_partitions = unit_partitions(marked, stage, number, topics)
        # What a predecessor handled may still wait for the end of its round.
        self._has_news = True
        self._closed = closed_round(restored)
        self._heard_of = heard_of(restored)
        self._processor = stage.create(number, processor_state(restored))
        self._early = EarlyFacts(restored)
        self._outcomes = Outcomes(stage, restored)
        self._codec = codec
        self._skipping = Skipping(stage, codec.topics)
        self._limit = limit or EventTimeLimit()
        self._stamper = (hooks or Hooks()).stamper
        self._waiting: dict[TopicPartition, deque[Record]] = {
            partition: deque() for partition in self.partitions
        }
        self._barriers: dict[TopicPartition, tuple[Round, int]] = {}
        self._now_us = 0
        self._wake_us = int(restored.get(WAKE_KEY, b"0"))
        self._wanted_us = 0
        self._commit = Commit()
        self._blame = blame
        self.at_record: Record | None = None
        """The record in hand; None at the end of a round."""
        self.read_record: Record | None = None
        """The one that was read last: it may have brought an early one into hand."""
        self.ending: int | None = None
        """The round that ends, or that ended last in this unit."""
        self.suspects: Sequence[str] = ()
        """What the last end of a round dealt with, in a trial of a processor that knows."""
        self.taken_in_hand: Callable[[], None] = _nobody
        """Called before each record and end of a round."""

    @property
    def next_round(self) -> int:
        """Return the number of the first round that is not closed."""
        return self._closed.number + 1 if self._closed else 0

    @property
    def closed_us(self) -> int:
        """Return when the last closed round ended, 0 when there was none."""
        return self._closed.ended_at_us if self._closed else 0

    @property
    def held(self) -> frozenset[TopicPartition]:
        """Return partitions that wait for the others of their round."""
        return frozenset(self._barriers)

    @property
    def heads(self) -> list[Record]:
        """Return the next record of each partition that has some waiting."""
        return [queue[0] for queue in self._waiting.values() if queue]

    def go_on(self) -> None:
        """Continue without leaving anything out: what was left out is done with."""
        self._blame = None

    def crowded(self, limit: int) -> frozenset[TopicPartition]:
        """Return held partitions with at least `limit` records waiting: a driver fetches no more
        from them."""
        return frozenset(
            partition for partition in self._barriers if len(self._waiting[partition]) >= limit
        )

    def process(self, records: Iterable[Record], now_us: int = 0) -> Commit:
        """Handle records; `now_us` is the wall clock, 0 in an emulated run.

        Any exception means that the unit must not be used any more.
        """
        self._now_us = now_us
        for record in records:
            self._waiting[record.partition].append(record)
        while self._is_round_complete():
            self._close_round_at_barrier()
        return self._take_commit()

    def close_round(self, now_us: int) -> Commit:
        """End the round of a stage whose rounds a clock closes.

        A round in which nothing came and nothing is due leaves no trace: an idle system writes
        nothing. No round ends before the clock has passed the end of the last one.
        """
        self._now_us = now_us
        if now_us > self.closed_us:
            ended = Round(self.next_round, now_us)
            outputs = list(self._end_round(ended))
            if outputs or self._has_news or self._is_due(now_us):
                self._end(ended, outputs)
        return self._take_commit()

    def _is_due(self, now_us: int) -> bool:
        """Return whether something waits for this round's end although nothing came."""
        return 0 < self._wake_us <= now_us or self._early.is_due(now_us)

    @property
    def due_us(self) -> int:
        """Return when a round is to end although nothing comes; 0 when none is."""
        return min((us for us in (self._wake_us, self._next_due_us()) if us), default=0)

    def _is_round_complete(self) -> bool:
        for partition, queue in self._waiting.items():
            while queue and partition not in self._barriers:
                self._apply(queue.popleft())
        return len(self._barriers) == len(self.partitions)

    def _apply(self, record: Record) -> None:
        self.at_record = self.read_record = record
        self.taken_in_hand()
        self._commit.tally.records_in += 1
        self._commit.positions[record.partition] = record.offset + 1
        self._commit.last_read[record.partition] = record
        if self._is_passed_over(record) or self._is_skipped(record):
            return
        try:
            event = self._codec.decode(record)
            if isinstance(event.payload, RoundEnded):
                self._take_barrier(record, event.source, event.payload)
                return
            self._limit.check(event, self._reached_us)
            if isinstance(event.payload, WakeWanted):
                self._take_wake(event.payload)
                return
        except RejectedError as error:
            self._refuse(record, str(error))
            return
        self._commit.tally.unknown_fields += count_unknown_fields(event)
        job_id = job_of(event.payload)
        try:
            self._handle(record, event)
        except EarlyError as error:
            self._keep(job_id, record, event, str(error))
        else:
            is_for_all = is_awaited_by_all(event.payload)
            for subject in self._early.jobs() if is_for_all else (job_id,):
                self._join(subject)

    def _handle(self, record: Record, event: Event) -> None:
        """Raises EarlyError for what is to be handled later."""
        try:
            outputs = list(self._processor.handle(event))
        except EarlyError:
            raise
        except RejectedError as error:
            self._refuse(record, str(error))
        except OvertakenError as error:
            self._commit.tally.copies_dropped += 1
            self._tell_refusal(Command.from_event(event), str(error))
        except AlreadyAppliedError:
            self._commit.tally.copies_dropped += 1
            self._tell_in_force(event, is_copy=True)
        else:
            self._has_news = True
            self._publish(outputs)
            self._tell_in_force(event)

    def _tell_in_force(self, event: Event, *, is_copy: bool = False) -> None:
        """Publish at the end of the round that a command holds. One that was said again has this
        outcome too: the round has to end for that."""
        self._has_news |= self._outcomes.apply(event, is_copy=is_copy)

    def _tell_refusal(self, command: Command, reason: str) -> None:
        for told in self._outcomes.refuse(command, reason, self.next_round, self.closed_us):
            self._append(told)

    def _refuse(self, record: Record, reason: str) -> None:
        self._commit.tally.dead_letters += 1
        self._append(dead_letter(record, reason, self.stage.name, self.closed_us))
        self._tell_refusal(Command.from_headers(dict(record.headers)), reason)

    def _keep(self, job_id: str, record: Record, event: Event, reason: str) -> None:
        """Keep an early fact, which waits for what it is about."""
        self._has_news = True
        if self._early.keep(job_id, record, reason, self.stage.name):
            self._commit.tally.early += 1
            for told in self._outcomes.defer(event, reason, self.next_round, self.closed_us):
                self._append(told)
        else:
            self._refuse(record, f"{reason} (there are too many facts that came too early)")

    def _join(self, job_id: str) -> None:
        """Hand over what waited for the first event of a job, again for as long as one of them is
        one."""
        waiting = self._early.of(job_id) if len(self._early) else []
        for record in waiting:
            self.at_record = record
            self.taken_in_hand()
            try:
                if not self._is_passed_over(record):
                    self._handle(record, self._codec.decode_kept(record))
            except EarlyError:
                continue
            self._early.drop(job_id, record)
            self._join(job_id)
            return

    def _is_skipped(self, record: Record) -> bool:
        """Return whether a record is of no concern to the stage."""
        is_skipped = self._skipping.has(record)
        self._commit.tally.skipped += is_skipped
        self._has_news |= is_skipped
        return is_skipped

    def _is_passed_over(self, record: Record) -> bool:
        """Return whether a record is left out; then it becomes a dead letter."""
        fault = self._blame.records.get(identify(record)) if self._blame else None
        if fault is None:
            return False
        self._commit.tally.dead_letters += 1
        self._commit.tally.quarantined += 1
        self._append(quarantine(record, fault, self.stage.name, self.closed_us))
        if is_barrier(record) and self.stage.rounds is not RoundSource.CLOCK:
            # It uses up its number, as one of a false time does: the next one could not follow.
            self._close(Round(self.next_round, self.closed_us))
        self._tell_refusal(Command.from_headers(dict(record.headers)), fault.reason)
        return True

    @property
    def _reached_us(self) -> int:
        """A closed round does not count beside a clock: it may have been closed by a wrong one."""
        return self._now_us or self.closed_us

    def _take_barrier(self, record: Record, source: str, barrier: RoundEnded) -> None:
        if self.stage.rounds is RoundSource.CLOCK:
            return
        check_writer(self._codec.topics.spec(record.partition.topic), source)
        if barrier.round < self.next_round:
            self._commit.tally.copies_dropped += 1
            return
        # Of rounds that it had heard of, a topic that was restored older may lack some.
        skips = not self._now_us or barrier.round <= self._heard_of + 1
        check_number(barrier, self._closed, skips=skips)
        self._check_time(barrier)
        self._barriers[record.partition] = (
            Round(barrier.round, barrier.ended_at_us, barrier.last),
            record.offset,
        )
        self._commit.positions[record.partition] = record.offset

    def _check_time(self, barrier: RoundEnded) -> None:
        """A round of a false time does not end here: its events are decided at the end of the next
        one, which has the next number. Which number a first one should have had nobody knows."""
        ahead_us = self._limit.round_ahead_us if self._now_us else self._limit.ahead_us
        latest_us = max(self._reached_us, self._limit.origin_us) + ahead_us
        try:
            check_time(barrier, self._closed, latest_us)
        except RejectedError:
            if self._now_us and self._closed is not None:
                self._close(Round(barrier.round, self.closed_us))
            raise

    def _take_wake(self, wanted: WakeWanted) -> None:
        """The earliest counts: whoever still waits then says so again."""
        if wanted.at_us <= 0:
            raise RejectedError("at_us", f"must be a time after 1970, got {wanted.at_us} us")
        self._wake_us = min(wanted.at_us, self._wake_us or wanted.at_us)
        self._commit.changelog[WAKE_KEY] = str(self._wake_us).encode()

    def _close_round_at_barrier(self) -> None:
        """The lowest number closes first: a partition whose old barriers were deleted has later
        ones."""
        ended = min(
            (barrier for barrier, _ in self._barriers.values()), key=lambda barrier: barrier.number
        )
        passed = [
            partition
            for partition, (barrier, _) in self._barriers.items()
            if barrier.number == ended.number
        ]
        for partition in passed:
            _, offset = self._barriers.pop(partition)
            self._commit.positions[partition] = offset + 1
        self._end(ended, self._end_round(ended))

    def _is_set_aside(self, number: int) -> bool:
        return self._blame is not None and number in self._blame.rounds

    def _end_round(self, ended: Round) -> Iterable[Publish]:
        self.at_record, self.ending = None, ended.number
        if self._is_set_aside(ended.number):
            # What it would have decided waits for the next round, which finds the same state.
            self.taken_in_hand()
            return ()
        if self._blame is not None and isinstance(self._processor, Isolating):
            self.suspects = self._processor.suspects()
        self.taken_in_hand()
        if self._blame is not None and isinstance(self._processor, Isolating):
            for subject, fault in self._blame.subjects.items():
                self._processor.hold_back(subject, fault, ended)
        return self._processor.end_round(ended)

    def _end(self, ended: Round, outputs: Iterable[Publish]) -> None:
        self._has_news = False
        self._commit.tally.rounds_closed += 1
        self._publish(outputs)
        for letter in self._early.end_round(ended.ended_at_us, is_last=ended.last):
            self._commit.tally.dead_letters += 1
            self._append(posted(letter, ended.ended_at_us))
            self._tell_refusal(Command.from_headers(letter.headers), letter.reason)
        for told in self._outcomes.end_round(ended):
            self._append(told)
        barrier = self._close(ended)
        if 0 < self._wake_us <= ended.ended_at_us:
            self._wake_us, self._commit.changelog[WAKE_KEY] = 0, None
        # Who reads outputs learns that nothing was decided also where nobody closes rounds by them.
        barrier.set_aside = self._is_set_aside(ended.number)
        marked = self._marked_partitions if barrier.set_aside else self._barrier_partitions
        for partition in marked:
            self._commit.outputs.append(
                self._codec.encode_barrier(partition, self._own_event(barrier, ""))
            )
        self._want_wake()

    def _close(self, ended: Round) -> RoundEnded:
        self._closed = ended
        barrier = RoundEnded(round=ended.number, ended_at_us=ended.ended_at_us, last=ended.last)
        self._commit.changelog[ROUND_KEY] = barrier.SerializeToString()
        return barrier

    def _own_event(self, payload: Message, key: str) -> Event:
        """Return what the unit itself says of the last round."""
        source = f"{self.stage.name}.{self.number}"
        event_id = f"{source}/{payload.DESCRIPTOR.full_name}/round/{self.next_round - 1}"
        return Event(event_id, source, self.closed_us, key, payload)

    def _next_due_us(self) -> int:
        """Return when the processor or an early fact waits no longer; 0 when nothing waits."""
        waits_us = self._processor.wake_us() if isinstance(self._processor, Waking) else None
        return min((us for us in (waits_us, self._early.due_us) if us), default=0)

    def _want_wake(self) -> None:
        """Have a round closed when something is due, unless one is wanted for before that."""
        due_us = self._next_due_us() if self.stage.wakes else 0
        if not due_us or self.closed_us < self._wanted_us <= due_us:
            return
        self._wanted_us = max(due_us, self.closed_us + _LEAST_WAKE_US)
        wanted = self._own_event(WakeWanted(at_us=self._wanted_us), _REGION_KEY)
        self._append(Publish(self.stage.wakes, wanted))

    def _publish(self, outputs: Iterable[Publish]) -> None:
        for publish in outputs:
            if publish.topic not in self.stage.outputs:
                raise ValueError(f"stage {self.stage.name} must list {publish.topic} as an output")
            self._append(self._stamped(publish))
            self._commit.tally.published[publish.event.type] += 1

    def _stamped(self, publish: Publish) -> Publish:
        if not publish.event.traceparent:
            return publish
        return Publish(publish.topic, self._stamper.stamp(self.stage.name, publish.event))

    def _append(self, publish: Publish) -> None:
        record = self._encoded(publish)
        is_own = record.partition in self._own_partitions or publish.topic not in self.stage.outputs
        if not is_own:
            raise ValueError(
                f"unit {self.number} of {self.stage.name} may not write to {record.partition}: "
                f"{publish.event.id} must have the key of the input that caused it"
            )
        self._commit.outputs.append(record)

    def _encoded(self, publish: Publish) -> NewRecord:
        """What a stage makes of events that it took is nobody's bad input, however large it is."""
        try:
            return self._codec.encode(publish)
        except RejectedError as error:
            what = f"stage {self.stage.name} made {publish.event.id[:80]} for {publish.topic}"
            raise OversizeError(f"{what}: {error}") from error

    def _take_commit(self) -> Commit:
        commit, self._commit = self._commit, Commit()
        commit.changelog.update(self._processor.changes())
        commit.changelog.update(self._early.changes())
        commit.changelog.update(self._outcomes.changes())
        for key, value in commit.changelog.items():
            self._codec.check_state(key, value)
        commit.tally.records_out = len(commit.outputs)
        return commit

"""What an operator may decide about a unit's state after data were replaced or a clock was wrong.
Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from coplace.v1.control_pb2 import RoundEnded

from coplace_client.errors import RejectedError
from shared.catalogue.codec import WRONG_PARTITION, Codec
from shared.catalogue.event import Event
from shared.catalogue.record import Record, TopicPartition
from shared.domain.rounds import RoundSource
from shared.streams.stages.barriers import check_number
from shared.streams.stages.consistency import (
    Inconsistency,
    InconsistentError,
    LogFacts,
    UnitPartitions,
    check_at_start,
    wrong_counts,
)
from shared.streams.stages.provenance import Provenance, split_state
from shared.streams.stages.stage import Round, Stage
from shared.streams.stages.unit import Commit
from shared.streams.stages.unit_state import (
    HEARD_KEY,
    ROUND_KEY,
    closed_round,
    heard_of,
    last_round,
    processor_state,
    published_through,
    with_round_ended,
)


@dataclass(frozen=True, slots=True)
class UnitAtRest:
    """A unit that nobody runs: what its changelog holds, what its topics hold, when asked for the
    events of its outputs, and the units that close their rounds by its barriers."""

    stage: Stage
    partitions: UnitPartitions
    restored: Mapping[str, bytes]
    found: LogFacts
    outputs: Callable[[], Iterable[Event]]
    followers: tuple["UnitAtRest", ...] = ()


def followers_of(stage: Stage, stages: Iterable[Stage]) -> Iterator[Stage]:
    """Yield the stages that close their rounds by the barriers of a stage that goes by the
    clock."""
    if stage.rounds is RoundSource.CLOCK and stage.puts_barriers:
        yield from (each for each in stages if set(each.inputs) & set(stage.outputs))


def outputs_of(
    stage: Stage, number: int, codec: Codec, records: Iterable[Record]
) -> Iterator[Event]:
    """Yield the events that a unit of a stage has written, of all `records` of its outputs: a key
    may have moved to it with more Kafka partitions."""
    for record in records:
        with suppress(RejectedError):
            event = codec.decode(record, of_any_count=True)
            at = (
                codec.topics.partition_of(record.partition.topic, event.key)
                if event.key
                else record.partition
            )
            if stage.single or at.kafka_partition == number:
                yield event


def misplaced_records(codec: Codec, records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records that lie where another count of Kafka partitions put their key: readers of
    a unit's partitions refuse them."""
    for record in records:
        try:
            codec.decode(record)
        except RejectedError as error:
            if error.field == WRONG_PARTITION:
                yield record


class RepairedState(NamedTuple):
    """The next commit of a unit, and the provenance on which it follows."""

    commit: Commit
    provenance: Provenance


def accept(unit: UnitAtRest) -> RepairedState:
    """Go on with the state as it is, and with what its outputs say beyond it. Raises
    InconsistentError."""
    _require_followers(unit)
    before, state = split_state(unit.restored)
    positions, provenance = accepted(unit.partitions, before, bool(state), unit.found)
    recalled = _recalled(unit, state, last_round(state) + 1)
    changelog = {**recalled, **_heard(unit, state, recalled)}
    return RepairedState(Commit(changelog=changelog, positions=positions), provenance)


def replay(unit: UnitAtRest) -> RepairedState:
    """Forget the state and read all inputs again. Raises InconsistentError.

    What its outputs say is kept, and the number of the last round of the clock. Where barriers
    close the rounds each is decided again as it was: together they would not be.
    """
    _require_followers(unit)
    before, state = split_state(unit.restored)
    positions, provenance = replayed(unit.partitions, before, unit.found)
    is_clocked = unit.stage.rounds is RoundSource.CLOCK
    kept = {ROUND_KEY: state[ROUND_KEY]} if is_clocked and ROUND_KEY in state else {}
    recalled = _recalled(unit, kept, 0)
    changelog = {**dict.fromkeys(state), **kept, **recalled, **_heard(unit, kept, recalled)}
    return RepairedState(Commit(changelog=changelog, positions=positions), provenance)


def _require_followers(unit: UnitAtRest) -> None:
    """Require the units that follow a unit's barriers to be repaired before it: what they heard of
    may be all that is left of its numbers. Raises InconsistentError."""
    for follower in unit.followers:
        name, stage = follower.partitions.name, follower.stage.name
        provenance, state = split_state(follower.restored)
        if found := check_at_start(follower.partitions, provenance, bool(state), follower.found):
            what = f"{name} goes by its rounds, and is refused itself ({found[0].what})"
            advice = f"repair {stage} first: it knows what rounds there were"
            raise InconsistentError(unit.partitions.name, [Inconsistency(what, advice)])


def _recalled(
    unit: UnitAtRest, state: Mapping[str, bytes], next_round: int
) -> dict[str, bytes | None]:
    """Return what the outputs of a unit say beyond its state, which knows the rounds before
    `next_round`. No round of the clock begins a second time: units that follow its barriers would
    not hear of it."""
    goes_on = unit.stage.rounds is RoundSource.CLOCK and unit.stage.puts_barriers
    if not goes_on and unit.stage.recall is None:
        return {}
    told = list(unit.outputs())
    changes = dict(_last_round(unit, state, told)) if goes_on else {}
    if unit.stage.recall is not None:
        changes |= unit.stage.recall(processor_state(state), told, next_round)
    return changes


def _heard(
    unit: UnitAtRest, kept: Mapping[str, bytes], recalled: Mapping[str, bytes | None]
) -> dict[str, bytes | None]:
    """Return up to which round the numbers of barriers may have gaps, where that is beyond the one
    behind which the kept state goes on: their topic may have been restored older than the state of
    before or its outputs."""
    if unit.stage.rounds is RoundSource.CLOCK:
        return {}
    told = published_through(recalled)
    heard = max(heard_of(unit.restored), last_round(unit.restored), told)
    return {HEARD_KEY: str(heard).encode()} if heard > last_round(kept) else {}


def _last_round(
    unit: UnitAtRest, state: Mapping[str, bytes], told: Iterable[Event]
) -> dict[str, bytes | None]:
    """Return the last round of which the outputs hold a barrier that a reader would have believed,
    or of which a follower has heard: the outputs may have been restored older."""
    source = f"{unit.stage.name}.{unit.partitions.changelog.kafka_partition}"
    own = (event.payload for event in told if event.source == source)
    before = last = closed_round(state)
    for barrier in own:
        if isinstance(barrier, RoundEnded) and (last is None or barrier.round > last.number):
            with suppress(RejectedError):
                check_number(barrier, last, skips=False)
                last = Round(barrier.round, barrier.ended_at_us)
    for follower in unit.followers:
        last = _later(last, follower.restored)
    if last is None or last == before:
        return {}
    barrier = RoundEnded(round=last.number, ended_at_us=last.ended_at_us)
    return {ROUND_KEY: barrier.SerializeToString()}


def _later(last: Round | None, heard: Mapping[str, bytes]) -> Round | None:
    """Return a round, or the last one that a state has heard of where that has a higher number."""
    number, closed = max(last_round(heard), heard_of(heard)), closed_round(heard)
    if number <= (last.number if last else -1):
        return last
    return Round(number, max(each.ended_at_us if each else 0 for each in (last, closed)))


def accepted(
    unit: UnitPartitions, provenance: Provenance | None, has_state: bool, found: LogFacts
) -> tuple[dict[TopicPartition, int], Provenance]:
    """Return where a unit reads on with its state and topics as they are, and its provenance.

    It reads on where the state was made up to, or at the group's position when the state does not
    say, and within what the topics hold; a unit that never worked begins. Raises InconsistentError
    when there is no state to go on with, or the topics are not those that are declared.
    """
    if not has_state and provenance is None and found.committed:
        what = f"{unit.changelog.topic} holds no state of {unit.name}"
        advice = f"restore a backup of it, or `coplace restore replay {unit.stage}`"
        raise InconsistentError(unit.name, [Inconsistency(what, advice)])
    known = provenance.positions if provenance else found.committed
    begun = {
        partition for partition in unit.inputs if partition in known or partition in found.committed
    }
    positions = {
        partition: _within(known.get(partition, 0), partition, found) for partition in begun
    }
    return positions, _anew(unit, provenance, found)


def replayed(
    unit: UnitPartitions, provenance: Provenance | None, found: LogFacts
) -> tuple[dict[TopicPartition, int], Provenance]:
    """Return where a unit without a state reads on: where every input begins. Raises
    InconsistentError when the topics are not those that are declared."""
    positions = {partition: found.begins.get(partition, 0) for partition in unit.inputs}
    return positions, _anew(unit, provenance, found)


def repaired_clock_state(stage: Stage, state: Mapping[str, bytes], now_us: int) -> Commit:
    """Return the commit by which the last round of a state has ended now, and nothing is put off
    beyond what follows from it."""
    ended = {ROUND_KEY: with_round_ended(state, now_us)}
    return Commit(changelog={**stage.repair(processor_state(state), now_us), **ended})


def _within(position: int, partition: TopicPartition, found: LogFacts) -> int:
    return min(max(position, found.begins.get(partition, 0)), found.ends.get(partition, position))


def _anew(unit: UnitPartitions, provenance: Provenance | None, found: LogFacts) -> Provenance:
    """Return a provenance without a past: only the count of commits goes on."""
    if wrong := list(wrong_counts(unit, found.topics)):
        raise InconsistentError(unit.name, wrong)
    topics = {name: found.topics[name] for name in unit.kafka_partitions}
    commits = max(provenance.commits if provenance else 0, found.commits or 0)
    return Provenance(commits=commits, topics=topics)

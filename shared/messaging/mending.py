"""What an operator may decide about a unit's state after data were replaced or a clock was wrong.
Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from coplace.v1.control_pb2 import RoundEnded

from shared.domain.errors import RejectedError
from shared.messaging.codec import Codec
from shared.messaging.consistency import (
    Inconsistency,
    InconsistentError,
    LogFacts,
    UnitPlaces,
    wrong_counts,
)
from shared.messaging.event import Event
from shared.messaging.marks import check_number
from shared.messaging.provenance import Provenance, split_state
from shared.messaging.record import Place, Record
from shared.messaging.stage import Round, RoundSource, Stage
from shared.messaging.unit import Commit
from shared.messaging.unit_state import (
    ROUND_KEY,
    closed_round,
    processor_state,
    with_round_ended,
)


@dataclass(frozen=True, slots=True)
class UnitAtRest:
    """A unit that nobody runs: what its changelog holds, what its topics hold, and, when asked for,
    the events of its outputs."""

    stage: Stage
    places: UnitPlaces
    restored: Mapping[str, bytes]
    found: LogFacts
    outputs: Callable[[], Iterable[Event]]


def told_by(stage: Stage, number: int, codec: Codec, records: Iterable[Record]) -> Iterator[Event]:
    """The events that a unit of a stage has written, of all `records` of its outputs: a key may
    have moved to it with more Kafka partitions."""
    for record in records:
        with suppress(RejectedError):
            event = codec.decode(record, of_any_count=True)
            at = codec.topics.place_of(record.place.topic, event.key) if event.key else record.place
            if stage.single or at.kafka_partition == number:
                yield event


class Mended(NamedTuple):
    """The next commit of a unit, and the provenance on which it follows."""

    commit: Commit
    provenance: Provenance


def accept(unit: UnitAtRest) -> Mended:
    """Go on with the state as it is, and with what its outputs tell beyond it. Raises
    InconsistentError."""
    before, state = split_state(unit.restored)
    positions, provenance = accepted(unit.places, before, bool(state), unit.found)
    changelog = _recalled(unit, state, goes_on=unit.stage.rounds is RoundSource.CLOCK)
    return Mended(Commit(changelog=changelog, positions=positions), provenance)


def replay(unit: UnitAtRest) -> Mended:
    """Forget the state and read all inputs again. Raises InconsistentError.

    What its outputs tell is kept, and the number of the last round; but where marks close the
    rounds and nobody hears of it, each is decided again as it was: together they would not be.
    """
    before, state = split_state(unit.restored)
    positions, provenance = replayed(unit.places, before, unit.found)
    is_clocked = unit.stage.rounds is RoundSource.CLOCK
    keeps_round = ROUND_KEY in state and (is_clocked or unit.stage.marks_outputs)
    kept = {ROUND_KEY: state[ROUND_KEY]} if keeps_round else {}
    goes_on = is_clocked or not kept
    changelog = {**dict.fromkeys(state), **kept, **_recalled(unit, kept, goes_on=goes_on)}
    return Mended(Commit(changelog=changelog, positions=positions), provenance)


def _recalled(
    unit: UnitAtRest, state: Mapping[str, bytes], *, goes_on: bool
) -> dict[str, bytes | None]:
    """What the outputs of a unit tell beyond its state. Where it `goes_on` with their last round,
    none begins a second time, which would not be heard by who follows its marks; where marks close
    its rounds it ends them again as it did."""
    goes_on = goes_on and unit.stage.marks_outputs
    if not goes_on and unit.stage.recall is None:
        return {}
    told = list(unit.outputs())
    changes = dict(_last_round(unit, state, told)) if goes_on else {}
    if unit.stage.recall is not None:
        changes |= unit.stage.recall(processor_state(state), told)
    return changes


def _last_round(
    unit: UnitAtRest, state: Mapping[str, bytes], told: Iterable[Event]
) -> dict[str, bytes | None]:
    """The last one of which the outputs hold a mark that a reader would have believed."""
    source = f"{unit.stage.name}.{unit.places.changelog.kafka_partition}"
    own = (event.payload for event in told if event.source == source)
    before = last = closed_round(state)
    for mark in own:
        if isinstance(mark, RoundEnded) and (last is None or mark.round > last.number):
            with suppress(RejectedError):
                check_number(mark, last, skips=False)
                last = Round(mark.round, mark.ended_at_us)
    if last is None or last == before:
        return {}
    mark = RoundEnded(round=last.number, ended_at_us=last.ended_at_us)
    return {ROUND_KEY: mark.SerializeToString()}


def accepted(
    unit: UnitPlaces, provenance: Provenance | None, has_state: bool, found: LogFacts
) -> tuple[dict[Place, int], Provenance]:
    """The state as it is, with the topics as they are: where it then reads on, and its provenance.

    It reads on where the state was made up to, or where the group stands when the state does not
    tell, and within what the topics hold; a unit that never worked begins. Raises InconsistentError
    when there is no state to go on with, or the topics are not those that are declared.
    """
    if not has_state and provenance is None and found.committed:
        what = f"{unit.changelog.topic} holds no state of {unit.name}"
        advice = f"restore a backup of it, or `coplace restore replay {unit.stage}`"
        raise InconsistentError(unit.name, [Inconsistency(what, advice)])
    known = provenance.positions if provenance else found.committed
    begun = {place for place in unit.inputs if place in known or place in found.committed}
    positions = {place: _within(known.get(place, 0), place, found) for place in begun}
    return positions, _anew(unit, provenance, found)


def replayed(
    unit: UnitPlaces, provenance: Provenance | None, found: LogFacts
) -> tuple[dict[Place, int], Provenance]:
    """No state, and every input from where it begins. Raises InconsistentError when the topics are
    not those that are declared."""
    positions = {place: found.begins.get(place, 0) for place in unit.inputs}
    return positions, _anew(unit, provenance, found)


def clock_mended(stage: Stage, state: Mapping[str, bytes], now_us: int) -> Commit:
    """The last round of a state has ended now, and nothing is put off beyond what follows from
    it."""
    ended = {ROUND_KEY: with_round_ended(state, now_us)}
    return Commit(changelog={**stage.mend(processor_state(state), now_us), **ended})


def _within(position: int, place: Place, found: LogFacts) -> int:
    return min(max(position, found.begins.get(place, 0)), found.ends.get(place, position))


def _anew(unit: UnitPlaces, provenance: Provenance | None, found: LogFacts) -> Provenance:
    """A provenance without a past: only the count of commits goes on."""
    if wrong := list(wrong_counts(unit, found.topics)):
        raise InconsistentError(unit.name, wrong)
    topics = {name: found.topics[name] for name in unit.kafka_partitions}
    commits = max(provenance.commits if provenance else 0, found.commits or 0)
    return Provenance(commits=commits, topics=topics)

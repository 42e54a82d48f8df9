"""What an operator may decide about a unit's state after data were replaced. Pure."""

from shared.messaging.consistency import (
    Inconsistency,
    InconsistentError,
    LogFacts,
    UnitPlaces,
    wrong_counts,
)
from shared.messaging.provenance import Provenance
from shared.messaging.record import Place


def accepted(
    unit: UnitPlaces, provenance: Provenance | None, has_state: bool, found: LogFacts
) -> tuple[dict[Place, int], Provenance]:
    """The state as it is, with the topics as they are: where it then reads on, and its provenance.

    It reads on where the state was made up to, or where the group stands when the state does not
    tell, and within what the topics hold. Raises InconsistentError when there is no state to go on
    with, or the topics are not those that are declared.
    """
    if not has_state and provenance is None:
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


def _within(position: int, place: Place, found: LogFacts) -> int:
    return min(max(position, found.begins.get(place, 0)), found.ends.get(place, position))


def _anew(unit: UnitPlaces, provenance: Provenance | None, found: LogFacts) -> Provenance:
    """A provenance without a past: only the count of commits goes on."""
    if wrong := list(wrong_counts(unit, found.topics)):
        raise InconsistentError(unit.name, wrong)
    topics = {name: found.topics[name] for name in unit.kafka_partitions}
    commits = max(provenance.commits if provenance else 0, found.commits or 0)
    return Provenance(commits=commits, topics=topics)

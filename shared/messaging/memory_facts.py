"""What the log in memory says of a unit's topics and places."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from shared.messaging.consistency import LogFacts, UnitPlaces
from shared.messaging.memory import InMemoryLog
from shared.messaging.provenance import Provenance, content_sha256
from shared.messaging.record import Place


def facts_in_memory(log: InMemoryLog, unit: UnitPlaces, provenance: Provenance | None) -> LogFacts:
    """All that `shared.messaging.consistency` compares."""
    known = provenance or Provenance()
    committed = {place: log.committed(unit.stage, place) for place in unit.inputs}
    places = {*unit.inputs, *known.written_to}
    return replace(
        facts_of_places(log, unit.kafka_partitions, known, places),
        committed={place: at for place, at in committed.items() if at is not None},
        commits=_latest(log.commits(unit.stage, place) for place in unit.inputs),
    )


def facts_of_places(
    log: InMemoryLog, declared: Mapping[str, int], known: Provenance, places: Iterable[Place]
) -> LogFacts:
    """The same without a group: what a read model compares. `declared` are counts of Kafka
    partitions by topic."""
    there = {*places}
    return LogFacts(
        topics={name: log.identity(name, count) for name, count in declared.items()},
        begins={place: log.begin_offset(place) for place in there},
        ends={place: log.end_offset(place) for place in there},
        sha256={place: _sha256(log, place, last.offset) for place, last in known.last_read.items()},
    )


def _sha256(log: InMemoryLog, place: Place, offset: int) -> bytes | None:
    found = log.read(place, offset, 1)
    return content_sha256(found[0]) if found and found[0].offset == offset else None


def _latest(commits: Iterable[int | None]) -> int | None:
    return max((number for number in commits if number is not None), default=None)

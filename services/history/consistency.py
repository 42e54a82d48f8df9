"""Whether a database follows from Kafka."""

from collections.abc import Mapping
from typing import Final

from services.history.log import FollowedLog
from services.history.writing import Position
from shared.catalogue.record import TopicPartition
from shared.streams.stages.consistency import Inconsistency, read_model_differences
from shared.streams.stages.provenance import Provenance, TopicIdentity

NAME: Final = "history"
HOW_TO: Final = "docs/how-to/history.md, 'When it refuses'"


async def differences(
    topics: FollowedLog, known: Mapping[TopicPartition, Position]
) -> list[Inconsistency]:
    """Return what a database was made from and Kafka does not have; what Kafka has removed
    meanwhile an archive may have."""
    last_read = {place: each.last_read for place, each in known.items() if each.last_read}
    found = await topics.facts({place.topic for place in known}, last_read, known)
    provenance = Provenance(
        topics={place.topic: TopicIdentity(each.topic_id, 0) for place, each in known.items()},
        positions={
            place: max(each.position, found.begins.get(place, 0)) for place, each in known.items()
        },
        last_read={
            place: last
            for place, last in last_read.items()
            if last.offset >= found.begins.get(place, 0)
        },
    )
    advice = f"build the database anew: `coplace history rebuild` ({HOW_TO})"
    wrong = read_model_differences(provenance, found, frozenset())
    return [Inconsistency(what, advice) for what in dict.fromkeys(each.what for each in wrong)]

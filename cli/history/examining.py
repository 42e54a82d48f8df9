"""Whether the database of the history fits Kafka and the archive, and can be opened at all."""

import asyncio
from collections.abc import Iterator, Mapping

from sqlalchemy import inspect, text
from sqlalchemy.exc import SQLAlchemyError

from services.history.adapters import ArchiveFiles, FollowedTopics
from services.history.database import Database, open_database
from services.history.following import ADVICE, HOW_TO
from services.history.settings import DatabaseSettings
from services.history.writing import HistoryWriter
from shared.archive.errors import ArchiveError
from shared.catalogue.record import TopicPartition
from shared.streams.following import PartitionPosition, differences
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.consistency import Inconsistency


async def examine_history(deployment: Deployment, own: DatabaseSettings) -> list[Inconsistency]:
    """Return what does not fit. Raises KafkaError."""
    database = Database(own.database, own.database_password_file)
    if database.is_file and not database.file.exists():
        return []
    try:
        known = await asyncio.to_thread(_positions, deployment, database)
    except SQLAlchemyError as error:
        return [Inconsistency(f"{database} cannot be read: {error}", f"see {HOW_TO}")]
    if not known:
        return []
    async with FollowedTopics.connected(deployment) as kafka:
        wrong = await differences(kafka, known, ADVICE, fills_gaps=True)
        begins = (await kafka.facts({each.topic for each in known}, {}, known)).begins
    archive = ArchiveFiles(own.archive) if own.archive else None
    return [*wrong, *_gaps(known, begins, archive)]


def _positions(
    deployment: Deployment, database: Database
) -> Mapping[TopicPartition, PartitionPosition]:
    engine = open_database(database)
    try:
        if not inspect(engine).has_table("positions"):
            return {}
        return HistoryWriter(engine, deployment.codec).positions()
    finally:
        engine.dispose()


def _gaps(
    known: Mapping[TopicPartition, PartitionPosition],
    begins: Mapping[TopicPartition, int],
    archive: ArchiveFiles | None,
) -> Iterator[Inconsistency]:
    """Yield what Kafka has removed before it was applied, where no archive has it."""
    for place, each in known.items():
        if each.position >= begins[place]:
            continue
        try:
            kept = archive.begins_at(place, each.topic_id) if archive else None
        except ArchiveError as error:
            yield Inconsistency(str(error), f"see {HOW_TO}")
            continue
        if kept is None or kept > each.position:
            what = (
                f"{place.topic}/{place.kafka_partition} was applied to offset {each.position}, and "
                f"Kafka begins at {begins[place]}"
            )
            advice = (
                f"set COPLACE_HISTORY_ARCHIVE to an archive that has what is between ({HOW_TO})"
            )
            yield Inconsistency(what, advice)


def database_problems(own: DatabaseSettings) -> Iterator[str]:
    """Yield, in words, what keeps the history from opening its database."""
    database = Database(own.database, own.database_password_file)
    if database.is_file:
        if not database.file.absolute().parent.is_dir():
            yield f"{database}: its folder is missing (COPLACE_HISTORY_DATABASE)"
        return
    engine = open_database(database)
    may_create = text("SELECT has_database_privilege(current_database(), 'CREATE')")
    try:
        with engine.begin() as connection:
            if not connection.scalar(may_create):
                yield f"{database}: its user may not create a schema: GRANT CREATE ON DATABASE"
    except SQLAlchemyError as error:
        yield f"{database} does not answer (COPLACE_HISTORY_DATABASE): {error}"
    finally:
        engine.dispose()

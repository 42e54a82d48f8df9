"""Builds the database of the history anew from topics and archive, and puts it in the place of the
old one."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from coplace_client.errors import UnusableError
from services.history.adapters import ArchiveFiles, FollowedTopics
from services.history.applying import BatchApplier
from services.history.database import (
    Database,
    locked,
    migrate,
    open_database,
    remove_rebuilding,
    replace_by_rebuilt,
)
from services.history.facts import TOPICS
from services.history.following import NAME, Follower
from services.history.writing import HistoryWriter, Rejected
from shared.catalogue.record import Record
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.consistency import InconsistentError
from shared.streams.stages.quarantine import Fault

_STALLED_S: Final = 60.0

OnApplied = Callable[[int], object]


class StalledTopicError(UnusableError):
    """Kafka has records that it does not hand over."""


class NoDatabaseFileError(UnusableError):
    """What is named as a database can be none."""


class Rebuilt(NamedTuple):
    """How many records were applied, and how many of them nobody can use: these are among the dead
    letters of the service that read them."""

    records: int
    left_out: int


def rebuild(
    deployment: Deployment, database: Database, archive: str, on_records: OnApplied
) -> Rebuilt:
    """Build the database anew, and replace the old one once the new one is whole. `on_records`
    hears how many records were applied. Raises CannotStartError while the service runs, and
    ArchiveError."""
    if database.is_file and (not database.file.name or database.file.is_dir()):
        raise NoDatabaseFileError(f"{database} is a folder: name the file of the database")
    with locked(database):
        remove_rebuilding(database)
        found = asyncio.run(_build(deployment, database.rebuilding, archive, on_records))
        replace_by_rebuilt(database)
    return found


async def _build(
    deployment: Deployment, database: Database, archive: str, on_records: OnApplied
) -> Rebuilt:
    engine = open_database(database, writes=True)
    migrate(database, engine)
    applied = left_out = 0

    def count(records: int) -> None:
        nonlocal applied
        applied += records
        on_records(applied)

    def leave_out(rejected: Sequence[Rejected]) -> None:
        nonlocal left_out
        left_out += len(rejected)

    def quarantine(record: Record, fault: Fault) -> None:
        leave_out([Rejected(record, fault.what)])

    writer = HistoryWriter(engine, deployment.codec, leave_out)
    async with FollowedTopics.connected(deployment) as kafka:
        # Nobody restarts it: what it fails at is left out at once.
        applier = BatchApplier(writer, 1, quarantine)
        files = ArchiveFiles(archive) if archive else None
        follower = Follower(kafka, applier, files, count)
        if wrong := await follower.open():
            raise InconsistentError(NAME, wrong)
        ends = (await kafka.facts(TOPICS, {}, follower.positions)).ends
        try:
            while any([await kafka.position(place) < end for place, end in ends.items()]):
                async with asyncio.timeout(_STALLED_S):
                    await follower.step(await kafka.read())
        except TimeoutError:
            raise StalledTopicError(f"nothing came from Kafka for {_STALLED_S:.0f} s") from None
    engine.dispose()
    return Rebuilt(applied, left_out)

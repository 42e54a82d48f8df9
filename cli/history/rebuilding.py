"""Builds the database of the history anew from topics and archive, and puts it in the place of the
old one."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from coplace_client.errors import UnusableError
from services.history.adapters import ArchiveFiles, FollowedTopics
from services.history.database import locked, migrate, open_database
from services.history.facts import TOPICS
from services.history.following import NAME, Follower
from services.history.writing import HistoryWriter
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.consistency import InconsistentError

_STALLED_S: Final = 60.0

OnApplied = Callable[[int], object]


class StalledTopicError(UnusableError):
    """Kafka has records that it does not hand over."""


class NoDatabaseFileError(UnusableError):
    """What is named as a database can be none."""


def rebuild(deployment: Deployment, file: Path, archive: str, on_records: OnApplied) -> None:
    """Build the database anew, and replace the old one once the new one is whole. `on_records`
    hears how many records were applied. Raises CannotStartError while the service runs, and
    ArchiveError."""
    if not file.name or file.is_dir():
        raise NoDatabaseFileError(f"{file} is a folder: name the file of the database")
    fresh = file.with_name(f"{file.name}.rebuilding")
    with locked(file):
        _remove(fresh)
        asyncio.run(_build(deployment, fresh, archive, on_records))
        # Without its log the old one is whole, if older: it is never beside a log of another.
        _remove_logs(file)
        fresh.replace(file)


async def _build(deployment: Deployment, file: Path, archive: str, on_records: OnApplied) -> None:
    engine = open_database(file, writes=True)
    migrate(engine)
    writer, applied = HistoryWriter(engine, deployment.codec), 0

    def count(records: int) -> None:
        nonlocal applied
        applied += records
        on_records(applied)

    async with FollowedTopics.connected(deployment) as kafka:
        follower = Follower(kafka, writer, ArchiveFiles(archive) if archive else None, count)
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
    _without_log(file)


def _without_log(file: Path) -> None:
    """Put all of a database into its file."""
    engine = open_database(file)
    connection = engine.raw_connection()
    try:
        connection.cursor().execute("PRAGMA journal_mode = DELETE")
    finally:
        connection.close()
        engine.dispose()


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
    _remove_logs(file)


def _remove_logs(file: Path) -> None:
    for end in ("-wal", "-shm", "-journal"):
        Path(f"{file}{end}").unlink(missing_ok=True)

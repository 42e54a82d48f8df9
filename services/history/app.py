"""Composition root of the history."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from coplace_client.life import pause
from services.history.adapters import ArchiveFiles, FollowedTopics
from services.history.applying import BatchApplier
from services.history.database import Database, locked, migrate, open_database
from services.history.facts import TOPICS
from services.history.following import NAME, Follower
from services.history.letters import LetterWriter
from services.history.meter import HistoryMeter
from services.history.reading import HistoryReader
from services.history.service import HistoryService
from services.history.settings import HistorySettings
from services.history.writing import HistoryWriter
from shared.archive.errors import ArchiveError
from shared.authority.bearing import TokenGate
from shared.authority.questions import question_door
from shared.catalogue.topics import DLQ_PREFIX
from shared.process.crash import end_process
from shared.process.grpc_server import grpc_server
from shared.process.life import Process, run_process
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.publisher import KafkaPublisher
from shared.streams.on_kafka.waiting import wait_for_topics
from shared.streams.stages.consistency import Inconsistency, InconsistentError
from shared.streams.telemetry import hooks_of

_LOOK_AGAIN_S: Final = 5.0


async def serve(process: Process) -> None:
    """Follow topics and answer until the process shall stop."""
    own = HistorySettings()
    deployment = Deployment.from_settings(process.settings, hooks_of(process.telemetry))
    database = Database(own.database, own.database_password_file)
    async with _own_database(database, process) as writing:
        if writing is None:
            return
        topics = [*TOPICS, *(DLQ_PREFIX + topic for topic in TOPICS)]
        await wait_for_topics(process.settings, topics, process.readiness, process.stop)
        async with (
            FollowedTopics.connected(deployment) as kafka,
            KafkaPublisher(deployment, NAME) as publisher,
        ):
            meter = HistoryMeter(process.telemetry.meter)
            letters = LetterWriter(deployment, publisher, asyncio.get_running_loop())
            writer = HistoryWriter(writing, deployment.codec, letters.reject)
            applier = BatchApplier(writer, process.settings.quarantine_after, letters.quarantine)
            archive = ArchiveFiles(own.archive) if own.archive else None
            follower = Follower(kafka, applier, archive, meter.applied)
            await process.wait_until_usable("its rows", partial(_problem, follower, deployment))
            if not process.stop.is_set():
                meter.observe(follower.lag_s, kafka.behind)
                await _answer(database, own, follower, meter, process)


async def _answer(
    database: Database,
    own: HistorySettings,
    follower: Follower,
    meter: HistoryMeter,
    process: Process,
) -> None:
    crash = partial(end_process, NAME)
    async with question_door(process, NAME) as door:
        reader = HistoryReader(open_database(database))
        service = HistoryService(reader, meter, crash, door)
        async with grpc_server(
            *(process, own.host, own.port, service.handlers(), own.most_calls),
            gate=TokenGate(door, crash),
        ):
            process.readiness.ready()
            await follower.run(process.stop)


@asynccontextmanager
async def _own_database(database: Database, process: Process) -> AsyncIterator[Engine | None]:
    """Yield the database, which nobody else writes, in the schema of this release; None where the
    process shall stop before a server answers."""
    while not process.stop.is_set():
        lock = locked(database)
        try:
            await asyncio.to_thread(lock.__enter__)
        except OperationalError as error:
            # A file that cannot be opened waits for nobody.
            if database.is_file:
                raise
            process.readiness.wait_for(f"{database}: {error.orig}")
            await pause(process.stop, _LOOK_AGAIN_S)
            continue
        try:
            engine = open_database(database, writes=True)
            await asyncio.to_thread(migrate, database, engine)
            yield engine
        finally:
            lock.__exit__(None, None, None)
        return
    yield None


async def _problem(follower: Follower, deployment: Deployment) -> str:
    """Return what keeps the history from going on, in words; empty where nothing does."""
    wrong: Sequence[Inconsistency] = ()
    try:
        wrong = await follower.open()
        problem = str(InconsistentError(NAME, wrong)) if wrong else ""
    except ArchiveError as error:
        problem = str(error)
    deployment.hooks.meter.refused(NAME, len(wrong))
    return problem


def main() -> None:
    """Run the process of the history."""
    run_process(NAME, serve)

"""Composition root of the history."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from services.history.adapters import ArchiveFiles, FollowedTopics
from services.history.database import locked, migrate, open_database
from services.history.facts import TOPICS
from services.history.following import NAME, Follower
from services.history.meter import HistoryMeter
from services.history.reading import HistoryReader
from services.history.service import HistoryService
from services.history.settings import HistorySettings
from services.history.writing import HistoryWriter
from shared.archive.errors import ArchiveError
from shared.authority.bearing import TokenGate
from shared.authority.questions import question_door
from shared.process.crash import end_process
from shared.process.grpc_server import grpc_server
from shared.process.life import Process, run_process
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.waiting import wait_for_topics
from shared.streams.stages.consistency import InconsistentError

_LOOK_AGAIN_S: Final = 5.0

log = structlog.get_logger(__name__)


async def serve(process: Process) -> None:
    """Follow topics and answer until the process shall stop."""
    own, crash = HistorySettings(), partial(end_process, NAME)
    deployment = Deployment.from_settings(process.settings)
    with locked(own.database):
        writing = open_database(own.database, writes=True)
        await asyncio.to_thread(migrate, writing)
        await wait_for_topics(process.settings, TOPICS, process.readiness, process.stop)
        meter = HistoryMeter(process.telemetry.meter)
        async with (
            question_door(process, NAME) as door,
            FollowedTopics.connected(deployment) as kafka,
        ):
            writer = HistoryWriter(writing, deployment.codec)
            archive = ArchiveFiles(own.archive) if own.archive else None
            follower = Follower(kafka, writer, archive, meter.applied)
            await _wait_until_it_follows(follower, process)
            if process.stop.is_set():
                return
            meter.observe(follower.lag_s, kafka.behind)
            reader = HistoryReader(open_database(own.database))
            service = HistoryService(reader, meter, crash, door)
            async with grpc_server(
                *(process, own.host, own.port, service.handlers(), own.most_calls),
                gate=TokenGate(door, crash),
            ):
                process.readiness.ready()
                await follower.run(process.stop)


async def _wait_until_it_follows(follower: Follower, process: Process) -> None:
    """Return when the database follows from Kafka, or when the process shall stop: until then it
    stays up and says why it does not work."""
    process.readiness.wait_for("its rows")
    while not process.stop.is_set():
        problem = await _problem(follower)
        if not problem:
            return
        if problem not in process.readiness.waiting_for:
            log.error("refused", problem=problem)
        process.readiness.refuse(problem)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_AGAIN_S):
                await process.stop.wait()


async def _problem(follower: Follower) -> str:
    """Return what keeps the history from going on, in words; empty where nothing does."""
    try:
        wrong = await follower.open()
    except ArchiveError as error:
        return str(error)
    return str(InconsistentError(NAME, wrong)) if wrong else ""


def main() -> None:
    """Run the process of the history."""
    run_process(NAME, serve)

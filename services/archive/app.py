"""Composition root of the archive."""

import time
from functools import partial

from coplace_client.errors import CannotStartError, UnusableError
from services.archive.adapters import KafkaLog
from services.archive.archiver import NAME, Archiver
from services.archive.meter import ArchiveMeter
from services.archive.settings import ArchiveSettings
from shared.archive.errors import ArchiveError
from shared.archive.storage import LocalFolder, Storage, open_storage
from shared.catalogue.topics import Cleanup, Topics
from shared.process.clock import now_us
from shared.process.life import Process, run_process
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.waiting import wait_for_topics
from shared.streams.stages.consistency import InconsistentError


async def archive(process: Process) -> None:
    """Archive topics until the process shall stop."""
    own = ArchiveSettings()
    deployment = Deployment.from_settings(process.settings)
    storage = _storage(own, deployment.topics)
    meter = ArchiveMeter(process.telemetry.meter, own.topic_names)
    await wait_for_topics(process.settings, own.topic_names, process.readiness, process.stop)
    spec = deployment.topics.spec
    async with KafkaLog.connected(deployment) as kafka:
        archiver = Archiver(
            *(kafka, storage, own.topic_names, meter),
            compacted=frozenset(
                name for name in own.topic_names if spec(name).cleanup is Cleanup.COMPACT
            ),
            tail_s=own.tail_s,
            retention_days=own.retention_days,
            monotonic_s=time.monotonic,
            now_ms=lambda: now_us() // 1_000,
        )
        await process.wait_until_usable("its files", partial(_problem, archiver))
        meter.observe(lambda: archiver.waiting, kafka.behind)
        if not process.stop.is_set():
            process.readiness.ready()
            await archiver.run(process.stop)


def _storage(own: ArchiveSettings, topics: Topics) -> Storage:
    """Return where the archive lies. Raises CannotStartError for an invalid place or topic,
    and where another process writes there."""
    try:
        for name in own.topic_names:
            topics.spec(name)
        storage = open_storage(own.where)
        if isinstance(storage, LocalFolder):
            storage.take()
    except (UnusableError, OSError) as error:
        raise CannotStartError(f"COPLACE_ARCHIVE_*: {error}") from None
    return storage


async def _problem(archiver: Archiver) -> str:
    """Return what keeps the archive from going on, in words; empty where nothing does."""
    try:
        wrong = await archiver.open()
    except ArchiveError as error:
        problem = str(error)
    else:
        problem = str(InconsistentError(NAME, wrong)) if wrong else ""
    if problem:
        archiver.archives.clear()
    return problem


def main() -> None:
    """Run the process of the archive."""
    run_process(NAME, archive)

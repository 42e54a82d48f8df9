"""Plays the emulated clusters of a hub as the resource managers of its sites: each publishes to the
ingest of its site, and hears decisions from its site's Kafka alone. It runs in the project's image,
with a file of the sites as its argument: name to `clusters`, `ingest` and `kafka`.

Rounds are barriers, each written once, and behind all of its round: at the hub, once what the sites
said of it has come up.
"""

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition
from coplace.v1.placement_pb2 import PlacementDecided

from lab.emulator.adapters import MARKED, EmulatorIngest, RecordedAnswers, RoundBarriers
from lab.emulator.answers import DECISIONS, Answers
from lab.emulator.app import emulator
from lab.emulator.settings import SimulationSettings
from shared.catalogue.event import Publish
from shared.process.life import Process, run_process
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.waiting import wait_for_topics

_POLL_MS: Final = 100

log = structlog.get_logger("sites")


class SitesDifferError(RuntimeError):
    """Two sites got different decisions."""


class ComeUp:
    """The ids of what has come up to the hub, on the topics of a round."""

    def __init__(self, hub: Deployment) -> None:
        self._hub = hub
        self._ids: set[str] = set()
        self._consumer = AIOKafkaConsumer(
            **hub.connection, isolation_level="read_committed", enable_auto_commit=False
        )

    async def __aenter__(self) -> "ComeUp":
        await self._consumer.start()
        partitions = [
            KafkaPartition(self._hub.name(partition.topic), partition.kafka_partition)
            for topic in MARKED
            for partition in self._hub.topics.partitions(topic)
        ]
        self._consumer.assign(partitions)
        await self._consumer.seek_to_beginning(*partitions)
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._consumer.stop()

    async def wait_for(self, events: Iterable[Publish], stop: asyncio.Event) -> None:
        """Return when all of them are there."""
        missing = {published.event.id for published in events} - self._ids
        while missing and not stop.is_set():
            found = await self._consumer.getmany(timeout_ms=_POLL_MS)
            for records in found.values():
                for record in records:
                    self._ids.add(self._hub.codec.decode(self._hub.record(record)).id)
            missing -= self._ids


def by_site(
    events: Sequence[Publish], sites: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Sequence[Publish]]:
    """What each site says: of its own clusters, and the first what is of none."""
    site_of = {cluster: name for name, site in sites.items() for cluster in site["clusters"]}
    said = defaultdict[str, list[Publish]](list)
    for published in events:
        _, _, cluster = published.event.source.rpartition("/")
        said[site_of.get(cluster, next(iter(sites)))].append(published)
    return said


def of_one_region(answers: Sequence[Answers]) -> Answers:
    """What all sites got alike. Raises SitesDifferError."""
    told = {frozenset(map(_bytes_of, each.decisions)) for each in answers}
    if len(told) != 1:
        raise SitesDifferError("two sites got different decisions of one round")
    return answers[0]


def _bytes_of(decision: PlacementDecided) -> bytes:
    return decision.SerializeToString(deterministic=True)


async def serve(process: Process) -> None:
    """Play the run until it is over."""
    sites = json.loads(Path(sys.argv[1]).read_text())
    settings = SimulationSettings()
    hub = Deployment.from_settings(process.settings)
    at = {
        name: process.settings.model_copy(update={"kafka_bootstrap": site["kafka"]})
        for name, site in sites.items()
    }
    for there in (process.settings, *at.values()):
        await wait_for_topics(there, {*MARKED, DECISIONS}, process.readiness, process.stop)
    played = emulator(settings)
    async with AsyncExitStack() as stack:
        ingest = {
            name: await stack.enter_async_context(EmulatorIngest(hub, site["ingest"]))
            for name, site in sites.items()
        }
        told = [
            await stack.enter_async_context(
                RecordedAnswers(Deployment.from_settings(each), (DECISIONS,))
            )
            for each in at.values()
        ]
        come_up = await stack.enter_async_context(ComeUp(hub))
        barriers = await stack.enter_async_context(RoundBarriers(hub))
        process.readiness.ready()
        while not played.finished and not process.stop.is_set():
            output = played.next_round()
            said = by_site(output.events, sites)
            await asyncio.gather(*(ingest[name].publish(each) for name, each in said.items()))
            await come_up.wait_for(output.events, process.stop)
            await barriers.write(output.round)
            heard = (each.of_round(output.round.number, process.stop) for each in told)
            played.apply(*of_one_region(await asyncio.gather(*heard)))
            log.info("round", number=output.round.number, events=len(output.events))
    log.info("run is over", complete=played.finished)


if __name__ == "__main__":
    run_process("simulation", serve)

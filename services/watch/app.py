"""Composition root of the watch service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from services.watch.adapters import KafkaDecisionLog
from services.watch.feed import Feed
from services.watch.meter import DecisionStreamMeter
from services.watch.ownership import COMMANDS, FollowedUsers, Sites
from services.watch.service import WatchLimits, WatchService
from services.watch.settings import WatchSettings
from services.watch.users import TOPIC as JOBS
from shared.authority.bearing import TokenGate
from shared.authority.questions import question_door
from shared.clients.decisions import DECISIONS
from shared.process.clock import now_us
from shared.process.crash import end_process
from shared.process.grpc_server import serve_grpc
from shared.process.life import Process, run_process
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.waiting import wait_for_topics

NAME: Final = "watch"
_MIB: Final = 2**20


async def serve(process: Process) -> None:
    """Serve gRPC until the process shall stop."""
    own, crash = WatchSettings(), partial(end_process, NAME)
    topics = (DECISIONS, JOBS, COMMANDS)
    await wait_for_topics(process.settings, topics, process.readiness, process.stop)
    deployment = Deployment.from_settings(process.settings)
    decisions, meter = KafkaDecisionLog(deployment), DecisionStreamMeter(process.telemetry.meter)
    limits = WatchLimits(own.most_waiting, own.most_catch_ups, own.heartbeat_s, own.stalled_s)
    async with (
        question_door(process, NAME) as door,
        Sites(deployment, crash) as sites,
        FollowedUsers(deployment, own, crash) as users,
    ):
        process.readiness.wait_for("the newest decisions")
        bounds = await decisions.starts(now_us() - round(own.history_s * 1e6))
        feed = Feed(decisions, await decisions.codec(), users, meter)
        async with feed.running(own.ring_mib * _MIB, bounds, crash):
            service = WatchService(feed, meter, limits, crash, door, sites)
            meter.observe(
                lambda: service.watchers, lambda: feed.ring.bytes, lambda: len(users.users)
            )
            async with _ended_by(process.stop, service):
                await serve_grpc(
                    *(process, own.host, own.port, service.handlers(), own.most_watchers),
                    gate=TokenGate(door, crash),
                )


@asynccontextmanager
async def _ended_by(stop: asyncio.Event, service: WatchService) -> AsyncIterator[None]:
    """End all streams when the process shall stop: the server waits for them."""

    async def end() -> None:
        await stop.wait()
        service.stop()

    ending = asyncio.create_task(end())
    try:
        yield
    finally:
        ending.cancel()


def main() -> None:
    """Run the process that resource managers and users watch."""
    run_process(NAME, serve)

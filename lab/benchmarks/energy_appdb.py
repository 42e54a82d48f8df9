"""AppDB updates a second of one core, and projections a second over gRPC: python -m
lab.benchmarks.energy_appdb [applications]

Updates: every round brings one run of each application. First the fold alone (handle, end_round),
then with changes(), which serialises the state, and the published rows as protobuf.
Projections: the energy API on a real Redis, asked over loopback by this same process, so that a
call costs its client's work too. CPU seconds of the process, the best of several.
"""

import asyncio
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
from coplace.v1.energy_service_pb2 import ProjectionSubject, ProjectRequest
from coplace.v1.energy_service_pb2_grpc import EnergyServiceStub
from coplace.v1.telemetry_pb2 import SignatureMeasured
from redis.asyncio import Redis

from deploy.local.servers import LocalServers
from services.energy.api.settings import EnergyApiSettings
from services.energy.appdb_cache.adapters import CachedAppDB, RedisAppDB
from services.energy.appdb_cache.model import COEFFICIENTS, SIGNATURES, CachedRow
from services.energy.processor.appdb import AppDB
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import TopicPartition
from shared.streams.stages.stage import Round
from tests.unit.services.energy.api.appdb import SCALE, coefficients, row, serving

REPEATS = 7
# Runs of each application before the first measurement: the AppDB then remembers what it ever will.
WARM_UP_ROUNDS = 70
NODE_MODELS = ("gold", "platinum")
PSTATES_GHZ = tuple(ghz / 10 for ghz in range(12, 28))
BATCHES = (1, 32, 1000)


def measured(app: int, number: int) -> Event:
    """Return one run of an application, at a P-state of its own."""
    payload = SignatureMeasured(
        app_id=f"app{app}",
        node_model="gold",
        freq_ghz=PSTATES_GHZ[-1],
        time_s=50 + number % 7,
        power_w=300,
        cpi=0.8,
        tpi=0.01,
        tpi_scale=SCALE,
    )
    key = f"app{app}|gold"
    return Event(f"site/SignatureMeasured/{app}/{number}", "site", number + 1, key, payload)


def fold(appdb: AppDB, events: Iterable[Event], number: int) -> list[Publish]:
    """Play one round of the stage."""
    published = [each for event in events for each in appdb.handle(event)]
    return published + list(appdb.end_round(Round(number, number * 30_000_000)))


def updates(apps: int, *, is_serialised: bool) -> float:
    """Measure runs taken in a CPU-second."""
    appdb, seconds = AppDB({}), []
    for number in range(WARM_UP_ROUNDS + REPEATS):
        events = [measured(app, number) for app in range(apps)]
        began_s = time.process_time()
        published = fold(appdb, events, number)
        if is_serialised:
            appdb.changes()
            for each in published:
                each.event.payload.SerializeToString()
        seconds.append(time.process_time() - began_s)
        appdb.changes()
    return apps / min(seconds[WARM_UP_ROUNDS:])


async def fill(redis: Redis, apps: int) -> None:
    """Write both node models into the cache."""
    writer = RedisAppDB(redis, str)
    for topic, rows in ((SIGNATURES, _signatures(apps)), (COEFFICIENTS, _coefficients())):
        entries = list(enumerate(rows))
        await writer.apply(TopicPartition(topic, 0), 0, len(entries), entries)


def _signatures(apps: int) -> Iterable[CachedRow]:
    for model in NODE_MODELS:
        for app in range(apps):
            state = row(f"app{app}", model, PSTATES_GHZ[-1])
            yield CachedRow(f"app{app}|{model}", 1, state)


def _coefficients() -> Iterable[CachedRow]:
    for model in NODE_MODELS:
        message = coefficients(model, f"{model}@1", PSTATES_GHZ)
        yield CachedRow(model, 1, message.SerializeToString())


async def points(redis_url: str) -> None:
    """Print points a CPU-second by the applications of a call."""
    async with Redis.from_url(redis_url) as redis:
        await fill(redis, max(BATCHES))
        most_points = EnergyApiSettings().most_points
        async with serving(CachedAppDB(redis, str), [], most_points) as channel:
            for batch in BATCHES:
                await _report(channel, batch)


async def _report(channel: grpc.aio.Channel, batch: int) -> None:
    request = ProjectRequest(
        subjects=[ProjectionSubject(app_id=f"app{number}") for number in range(batch)]
    )
    calls = max(1, 1000 // batch)
    seconds = []
    for _ in range(REPEATS):
        began_s = time.process_time()
        for _ in range(calls):
            response = await EnergyServiceStub(channel).Project(request)
        seconds.append((time.process_time() - began_s) / calls)
    found = sum(len(one.freq_ghz) for one in response.projections)
    print(
        f"Project, {batch} applications a call: {found / min(seconds):,.0f} points a CPU-second, "
        f"{min(seconds) * 1e3:.1f} ms a call of {found} points"
    )


def main(apps: int) -> None:
    """Print all of them."""
    print(f"AppDB, fold alone: {updates(apps, is_serialised=False):,.0f} updates a CPU-second")
    print(f"AppDB, serialised: {updates(apps, is_serialised=True):,.0f} updates a CPU-second")
    with TemporaryDirectory() as folder, LocalServers(Path(folder), kafka=False) as servers:
        asyncio.run(points(servers.redis_url))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)

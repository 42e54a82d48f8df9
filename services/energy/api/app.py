"""Composition root of the energy API."""

from functools import partial
from typing import Final

from services.energy.api.meter import EnergyApiMeter
from services.energy.api.service import EnergyService
from services.energy.api.settings import EnergyApiSettings
from services.energy.appdb_cache.adapters import CachedAppDB
from shared.authority.bearing import TokenGate
from shared.authority.questions import question_door
from shared.process.crash import end_process
from shared.process.grpc_server import serve_grpc
from shared.process.life import Process, run_process
from shared.process.redis_client import redis_client, wait_for_redis
from shared.streams.on_kafka.deployment import Deployment

NAME: Final = "energy.api"


async def serve(process: Process) -> None:
    """Serve gRPC until the process shall stop."""
    own, crash = EnergyApiSettings(), partial(end_process, NAME)
    async with (
        question_door(process, NAME) as door,
        redis_client(process.settings) as redis,
    ):
        await wait_for_redis(process.settings, redis, process.readiness, process.stop)
        appdb = CachedAppDB(redis, Deployment.from_settings(process.settings).name)
        meter = EnergyApiMeter(process.telemetry.meter)
        service = EnergyService(appdb, meter, own.most_points, crash, door)
        gate = TokenGate(door, crash)
        await serve_grpc(process, own.host, own.port, service.handlers(), gate=gate)


def main() -> None:
    """Run the process of the API that EAR asks."""
    run_process(NAME, serve)

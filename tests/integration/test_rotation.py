"""New credentials on real servers: who is connected stays so, who connects again is believed by
the files as they are, and what was before is refused."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError

from cli.believing_servers import RunningServers, believe_each_other
from cli.rotation import Rotation
from deploy.local.credentials import Credentials
from deploy.local.kafka.broker import KAFKA
from deploy.local.ports import remembered_ports
from shared.process.redis_client import redis_client
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.refusals import kafka_problem
from tests.support.secured import Secured


class Client:
    """A process that was started before, with connections of its own to Kafka and Redis."""

    def __init__(self, settings: Settings) -> None:
        deployment = Deployment.from_settings(settings)
        self._topic = deployment.name("slurm.jobcomp")
        self._producer = AIOKafkaProducer(**deployment.connection, acks="all")
        self._redis: Redis = redis_client(settings)

    async def start(self) -> None:
        """Connect."""
        await self._producer.start()
        await self.work()

    async def work(self) -> None:
        """Raises KafkaError or RedisError where it is not believed."""
        await self._producer.send_and_wait(self._topic, b"{}", partition=0)
        await self._redis.ping()

    async def work_anew(self) -> None:
        """The same over new connections."""
        for connection in list(self._producer.client._conns.values()):
            connection.close()
        await self._redis.connection_pool.disconnect()
        await self.work()

    async def redis_connection(self) -> int:
        """By its number."""
        return int(await self._redis.client_id())

    async def stop(self) -> None:
        """Go."""
        await self._producer.stop()
        await self._redis.aclose()


def settings_of(folder: Path, secured: Secured, **otherwise: object) -> Settings:
    """The operator's, by the credentials of another folder."""
    kept, here = str(secured.security.credentials.folder), str(folder)
    found = secured.settings("operator")
    moved: Mapping[str, object] = {
        name: Path(str(value).replace(kept, here))
        for name, value in found.model_dump().items()
        if isinstance(value, Path)
    }
    return found.model_copy(update={**moved, **otherwise})


@pytest.mark.thorough
async def test_who_is_connected_stays_and_what_was_before_is_refused(
    secured: Secured, tmp_path: Path
) -> None:
    security, servers = secured.security, secured.servers
    kept = security.credentials
    before = Credentials(tmp_path / "before")
    shutil.copytree(kept.folder, before.folder)
    pids = [servers.pid(name) for name in ("kafka", "redis")]
    client = Client(secured.settings("operator"))
    await client.start()
    connection = await client.redis_connection()
    working = asyncio.create_task(_work_on(client))
    rotation = Rotation(security, RunningServers(security, servers))
    await asyncio.to_thread(rotation.run, print)
    working.cancel()
    await client.work()
    assert await client.redis_connection() == connection
    await client.work_anew()
    await client.stop()
    assert [servers.pid(name) for name in ("kafka", "redis")] == pids

    assert await kafka_problem(secured.settings("operator")) == ""
    old = settings_of(before.folder, secured)
    assert "did not sign" in await kafka_problem(old)
    old = settings_of(before.folder, secured, kafka_ca_file=kept.authority)
    assert "refuses user operator with the password" in await kafka_problem(old)
    old = settings_of(before.folder, secured, redis_ca_file=kept.authority)
    async with redis_client(old) as redis:
        with pytest.raises(AuthenticationError):
            await redis.ping()
    ports = remembered_ports(servers.ports_file)
    for name in ("kafka-internal", "kafka-controller"):
        address = f"127.0.0.1:{ports[name]}"
        assert believe_each_other(address, kept, kept.identity(KAFKA))
        assert not believe_each_other(address, kept, before.identity(KAFKA)), name
        assert not believe_each_other(address, before, kept.identity(KAFKA)), name
    assert "ERROR" not in servers.log("kafka").read_text()


async def _work_on(client: Client) -> None:
    while True:
        await client.work()
        await asyncio.sleep(0.05)

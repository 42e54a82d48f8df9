"""Webhooks as a process on real Kafka: killed again and again, beside receivers that mean harm, it
delivers each own event with one id and a signature that verifies, and none of another's."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import grpc
import pytest
from coplace.v1.webhook_service_pb2 import AddWebhookRequest, ListWebhooksRequest
from coplace.v1.webhook_service_pb2_grpc import WebhookServiceStub
from standardwebhooks import Webhook as Verifier

from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from services.webhooks.facts import TOPICS
from shared.catalogue.record import NewRecord
from shared.process.settings import Settings
from shared.streams.on_kafka.admin import admin_client, ensure_topics
from shared.streams.on_kafka.clients import Publisher
from shared.streams.on_kafka.deployment import Deployment
from tests.support import receivers as made
from tests.support.patience import PATIENCE_S
from tests.support.receivers import Receivers, receivers
from tests.unit.services.history.made import FactLog, charge, finished, started, submitted
from tests.unit.services.webhooks.made import allocated

NAMESPACE: Final = "webhooks"
KAFKA_PARTITIONS: Final = 2
ROUNDS: Final = 4
JOBS_A_ROUND: Final = 60


class Ground:
    """Receivers in a thread of their own."""

    def __init__(self) -> None:
        self.receivers: Receivers | None = None
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Ground":
        self._thread.start()
        self._ready.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        async with receivers() as found:
            inside = await found.listen("inside", made.good)
            for name, behaviour in {
                "good": made.good,
                "bobs": made.good,
                "money": made.good,
                "hang": made.hanging,
                "flood": made.flooding(500),
                "reset": made.resetting,
                "redirect": made.redirecting(f"http://127.0.0.1:{inside}/"),
            }.items():
                await found.listen(name, behaviour)
            self.receivers = found
            self._ready.set()
            await self._end.wait()

    def taken(self, name: str) -> made.Taken:
        assert self.receivers
        return self.receivers.taken[name]

    def url(self, name: str) -> str:
        assert self.receivers
        return f"http://localhost:{self.receivers.ports[name]}/{name}"


class Receiving(NamedTuple):
    """A process that posts, and where to."""

    servers: LocalServers
    deployment: Deployment
    address: str
    health: int
    ground: Ground
    secrets: dict[str, str]

    def send(self, *facts: tuple[str, Any]) -> None:
        """Send facts of topics."""
        log = FactLog()
        for topic, payload in facts:
            log.add(topic, payload)
        with Publisher(self.deployment) as publisher:
            for records in log.records.values():
                publisher.append(
                    NewRecord(each.partition, each.key, each.value, each.headers)
                    for each in records
                )

    def call(self, method: str, request: Any) -> Any:
        """Ask the service."""
        with grpc.insecure_channel(self.address) as channel:
            return getattr(WebhookServiceStub(channel), method)(request, timeout=20)

    def add(self, name: str, **scope: Any) -> None:
        """Register the URL of a receiver."""
        request = AddWebhookRequest(url=self.ground.url(name), **scope)
        self.secrets[name] = self.call("AddWebhook", request).secret

    def events(self, name: str) -> dict[tuple[str, str], str]:
        """What a receiver got, each verified: the ids by type and job or account."""
        found: dict[tuple[str, str], str] = {}
        for headers, body in list(self.ground.taken(name).requests):
            document = Verifier(self.secrets[name]).verify(body, headers)
            data = document["data"]
            of = data.get("jobId") or data.get("account", {}).get("account", "")
            kept = found.setdefault((document["type"], of), headers["webhook-id"])
            assert kept == headers["webhook-id"]
        return found


def jobs(number: int) -> list[tuple[str, Any]]:
    """What happens to jobs of two users in a round."""
    found: list[tuple[str, Any]] = []
    for each in range(JOBS_A_ROUND):
        for user in ("ada", "bob"):
            job_id = f"{user}/{number}-{each}"
            end = finished(job_id, user=user)
            found += [
                ("jobs.events", submitted(job_id, user=user)),
                ("jobs.events", started(job_id)),
            ]
            found += [("jobs.events", end), ("prices.charges", charge(job_id, "1", finished=end))]
    return found


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for it. Raises TimeoutError."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise TimeoutError
        time.sleep(0.05)


@pytest.fixture(scope="module")
def posting(servers: LocalServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiving]:
    """A process that is killed in each round."""
    settings = Settings(
        kafka_bootstrap=servers.kafka_bootstrap,
        namespace=NAMESPACE,
        kafka_partitions=KAFKA_PARTITIONS,
    )
    deployment = Deployment.from_settings(settings)
    admin = admin_client(deployment)
    ensure_topics(admin, deployment, names=(*TOPICS, "authority", "audit"))
    admin.close()
    folder = tmp_path_factory.mktemp("webhooks")
    health, port, alerts = free_ports(3)
    (folder / "token").write_text("right\n")
    program = Program(
        NAMESPACE,
        [sys.executable, "-m", "services.webhooks"],
        env={
            "PYTHONPATH": os.pathsep.join(sys.path),
            "COPLACE_NAMESPACE": NAMESPACE,
            "COPLACE_KAFKA_PARTITIONS": str(KAFKA_PARTITIONS),
            "COPLACE_HTTP_PORT": str(health),
            "COPLACE_WEBHOOKS_DATABASE": str(folder / "webhooks.db"),
            "COPLACE_WEBHOOKS_PORT": str(port),
            "COPLACE_WEBHOOKS_ALLOWED": "localhost",
            "COPLACE_WEBHOOKS_ALLOW_HTTP": "true",
            "COPLACE_WEBHOOKS_TIMEOUT_S": "2",
            "COPLACE_WEBHOOKS_MOST_OF_ONE_OWNER": "100",
            "COPLACE_WEBHOOKS_ALERTS_TOKEN_FILE": str(folder / "token"),
            "COPLACE_WEBHOOKS_ALERTS_PORT": str(alerts),
        },
        ready_url=f"http://127.0.0.1:{health}/readyz",
    )
    servers.start([program])
    with Ground() as ground:
        found = Receiving(servers, deployment, f"127.0.0.1:{port}", health, ground, {})
        try:
            for name in ("good", "hang", "flood", "reset", "redirect"):
                found.add(name, user="ada")
            found.add("bobs", user="bob")
            found.add("money", account="physics", types=["budget.reached"])
            half = str(ROUNDS * JOBS_A_ROUND)
            found.send(("billing", allocated("physics", half)))
            for number in range(ROUNDS):
                found.send(*jobs(number))
                time.sleep(0.3 * number)
                servers.kill(NAMESPACE)
            yield found
        finally:
            servers.remove([program])


def test_each_own_event_is_delivered_over_kills_with_one_id(posting: Receiving) -> None:
    for name, user in (("good", "ada"), ("bobs", "bob")):
        expected = {
            (kind, f"{user}/{number}-{each}")
            for kind in ("job.started", "job.ended")
            for number in range(ROUNDS)
            for each in range(JOBS_A_ROUND)
        }
        wait_until(lambda name=name, most=expected: len(posting.events(name)) >= len(most))  # type: ignore[misc]
        assert posting.events(name).keys() == expected
    assert posting.ground.taken("inside").connections == 0


def test_a_budget_is_reached_once_over_kills(posting: Receiving) -> None:
    wait_until(lambda: bool(posting.events("money")))
    assert list(posting.events("money")) == [("budget.reached", "physics")]


def test_what_happens_is_posted_within_a_second_or_two_beside_receivers_that_hang(
    posting: Receiving,
) -> None:
    for number in range(5):
        job_id = f"ada/fresh-{number}"
        posting.send(("jobs.events", submitted(job_id)), ("jobs.events", started(job_id)))
        began_s = time.monotonic()
        wait_until(lambda of=job_id: ("job.started", of) in posting.events("good"))  # type: ignore[misc]
        assert time.monotonic() - began_s < 5.0


def test_owners_see_how_receivers_are_doing(posting: Receiving) -> None:
    listed = posting.call("ListWebhooks", ListWebhooksRequest()).webhooks
    by_name = {each.url.rpartition("/")[2]: each for each in listed}
    assert by_name["good"].failing_since_us == 0
    assert by_name["hang"].last_error == "no answer came in time"
    assert "redirects (307)" in by_name["redirect"].last_error
    assert all(by_name[name].waiting_deliveries for name in ("hang", "flood", "reset"))

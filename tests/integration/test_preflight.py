"""Problems of a deployment on real Kafka and Redis are reported before it starts."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kafka import KafkaConsumer

from deploy.local.servers import LocalServers
from shared.process.settings import Settings
from shared.streams.on_kafka.admin import admin_client
from shared.streams.on_kafka.deployment import Deployment

_JOINED_WITHIN_S = 30.0


@pytest.fixture
def deployment(servers: LocalServers) -> Deployment:
    """One of a name of its own."""
    return Deployment.from_settings(
        Settings(
            kafka_bootstrap=servers.kafka_bootstrap,
            redis_url=servers.redis_url,
            namespace=f"preflight-{uuid.uuid4().hex[:8]}",
        )
    )


def preflight(deployment: Deployment, *options: str) -> subprocess.CompletedProcess[str]:
    settings = deployment.settings
    environment = {
        **os.environ,
        "COPLACE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
        "COPLACE_REDIS_URL": settings.redis_url,
        "COPLACE_NAMESPACE": settings.namespace,
    }
    command = [str(Path(sys.executable).with_name("coplace")), "preflight", *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@contextmanager
def member_of(deployment: Deployment, group: str, topic: str) -> Iterator[None]:
    """A member of a consumer group.

    It asks for the topic's leader before it joins: a leader whose topics come in while it joins
    would share nothing out for ever, since kafka-python takes what it heard meanwhile for shared
    out."""
    options = {**deployment.connection, "group_id": deployment.name(group)}
    with closing(KafkaConsumer(**options)) as consumer:
        assert consumer.partitions_for_topic(topic)
        consumer.subscribe([topic])
        deadline_s = time.monotonic() + _JOINED_WITHIN_S
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
            assert time.monotonic() < deadline_s
        yield


def test_what_is_wrong_is_reported_and_what_is_repaired_is_ready(deployment: Deployment) -> None:
    """In one test: each command starts Python and connects."""
    topic = deployment.name("jobs.events")
    with admin_client(deployment) as client:
        client.create_topics({topic: {"num_partitions": 3, "replication_factor": 1}})
        client.wait_for_topics([topic])
        with member_of(deployment, "pricing", topic):
            refused = preflight(deployment, "--new")
        assert refused.returncode == 1
        counts, taken, last = refused.stderr.splitlines()
        assert f"topic {topic} has 3 Kafka partitions instead of 12" in counts
        assert deployment.name("pricing") in taken
        assert "2 problems to repair" in last
        client.delete_topics([topic])
    ready = preflight(deployment, "--new")
    assert ready.returncode == 0, ready.stderr
    assert ready.stdout.startswith("ready to start: ")


def test_a_redis_that_does_not_answer_is_reported(deployment: Deployment) -> None:
    nowhere = deployment.settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})
    refused = preflight(Deployment.from_settings(nowhere))
    assert refused.returncode == 1
    assert "COPLACE_REDIS_URL" in refused.stderr


def test_a_hub_without_topics_and_a_site_whose_name_is_taken_are_reported(
    deployment: Deployment,
) -> None:
    lacking = preflight(deployment, "--link", "north", "--new")
    assert lacking.returncode == 1
    assert f"the hub has no topic {deployment.name('jobs.events')}" in lacking.stderr
    assert "as the site north already" not in lacking.stderr
    topic = deployment.name("jobs.events")
    with admin_client(deployment) as client:
        client.create_topics({topic: {"num_partitions": 12, "replication_factor": 1}})
        client.wait_for_topics([topic])
        with member_of(deployment, "mirror.north.link", topic):
            taken = preflight(deployment, "--link", "north", "--new")
        client.delete_topics([topic])
    assert f"the hub has no topic {topic}" not in taken.stderr
    assert "sends to the hub as the site north already" in taken.stderr

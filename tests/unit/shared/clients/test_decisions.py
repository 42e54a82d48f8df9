"""Decisions reach who is asked, in their order, and count as obeyed only behind that."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from coplace.v1.placement_pb2 import (
    VERDICT_CANCELLED,
    VERDICT_QUEUED,
    VERDICT_REJECTED,
    VERDICT_START,
    PlacementDecided,
    Verdict,
)

from shared.clients import decisions
from shared.clients.decisions import DecisionFollower, ResourceManager
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.support.decisions import PlayedConsumer, barrier, record

DEPLOYMENT = Deployment.from_settings(Settings(namespace="n", kafka_partitions=2))
MANAGER = ResourceManager("rm", "north", frozenset({"alpha", "beta"}))


@pytest.fixture(autouse=True)
def _played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "AIOKafkaConsumer", PlayedConsumer)
    monkeypatch.setattr(PlayedConsumer, "records", ())


def decided(
    job: str, cluster: str = "", verdict: Verdict.ValueType = VERDICT_START
) -> PlacementDecided:
    return PlacementDecided(job_id=f"north/{job}", attempt=1, cluster=cluster, verdict=verdict)


async def followed(
    records: Sequence[Any], *, at_once: int, fails_at: str = ""
) -> tuple[list[list[str]], PlayedConsumer]:
    """What was to be obeyed, call by call, until all was read or obeying failed."""
    PlayedConsumer.records = records
    calls: list[list[str]] = []

    async def obey(found: Sequence[PlacementDecided]) -> None:
        calls.append([decision.job_id for decision in found])
        if fails_at in calls[-1]:
            raise ConnectionError("the resource manager is down")

    follower = DecisionFollower(DEPLOYMENT, MANAGER, at_once)
    running = asyncio.create_task(follower.run(obey))
    await asyncio.wait({running}, timeout=0.05)
    running.cancel()
    with pytest.raises((asyncio.CancelledError, ConnectionError)):
        await running
    return calls, PlayedConsumer.last


async def test_committed_decisions_are_read_on_by_the_resource_managers_own_group() -> None:
    _, consumer = await followed([], at_once=1)
    assert consumer.options["group_id"] == "n.resource-manager.rm"
    assert consumer.options["isolation_level"] == "read_committed"
    assert consumer.options["auto_offset_reset"] == "earliest"
    assert consumer.options["enable_auto_commit"] is False
    assert [(each.topic, each.partition) for each in consumer.assigned] == [
        ("n.placement.decisions", 0),
        ("n.placement.decisions", 1),
    ]
    assert consumer.is_stopped


async def test_decisions_are_obeyed_in_their_order_and_the_rest_of_the_topic_is_passed_by() -> None:
    told = [
        record(decided("alpha/1", "alpha")),
        barrier(),
        record(decided("gamma/2", "gamma")),
        SimpleNamespace(value=None, headers=(), timestamp=0),
        record(decided("alpha/1", "beta")),
    ]
    calls, consumer = await followed(told, at_once=10)
    assert calls == [["north/alpha/1", "north/alpha/1"]]
    assert consumer.committed == len(told)


async def test_a_position_is_committed_behind_what_was_obeyed_alone() -> None:
    told = [record(decided(f"alpha/{n}", "alpha")) for n in range(4)]
    calls, consumer = await followed(told, at_once=1, fails_at="north/alpha/2")
    assert calls == [["north/alpha/0"], ["north/alpha/1"], ["north/alpha/2"]]
    assert consumer.committed == 2
    _, consumer = await followed(told, at_once=4, fails_at="north/alpha/2")
    assert consumer.committed == 0


async def test_what_is_not_obeyed_yet_is_a_backlog_that_ages() -> None:
    PlayedConsumer.records = [record(decided("alpha/1", "alpha")), barrier()]
    follower, seen = DecisionFollower(DEPLOYMENT, MANAGER, 10), []

    async def obey(found: Sequence[PlacementDecided]) -> None:
        seen.append(follower.backlog())
        raise ConnectionError

    assert follower.backlog() == (0, 0.0)
    with pytest.raises(ConnectionError):
        await follower.run(obey)
    [backlog] = seen
    assert backlog[0] == 2
    assert backlog[1] > 0


@pytest.mark.parametrize(
    ("decision", "is_asked"),
    [
        (decided("alpha/1", "beta"), True),
        (decided("gamma/1", "alpha"), True),  # one of another Slurm may start here
        (decided("alpha/1", "gamma"), False),
        (decided("alpha/1", verdict=VERDICT_REJECTED), True),
        (decided("alpha/1", verdict=VERDICT_CANCELLED), True),
        (decided("alph/1", verdict=VERDICT_REJECTED), False),
        (decided("gamma/1", verdict=VERDICT_REJECTED), False),
        (decided("alpha/1", verdict=VERDICT_QUEUED), False),
    ],
)
def test_a_resource_manager_is_asked_about_its_clusters_and_to_drop_its_own_jobs(
    decision: PlacementDecided, *, is_asked: bool
) -> None:
    assert MANAGER.is_asked(decision) is is_asked

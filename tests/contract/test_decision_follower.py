"""A resource manager that is started again reads on behind what it obeyed."""

import asyncio
from collections.abc import Sequence

import pytest
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from shared.clients.decisions import DECISIONS, DecisionFollower, ResourceManager
from shared.streams.on_kafka.admin import admin_client, ensure_topics
from tests.contract.on_kafka import KafkaBackend
from tests.support.decisions import new_record

_MANAGER = ResourceManager("obeys", "north", frozenset({"alpha"}))
_WITHIN_S = 60.0


class EnoughError(Exception):
    """So many were obeyed."""


def obeyed(on_kafka: KafkaBackend, most: int) -> list[str]:
    """The jobs that were decided on, until so many were obeyed; of the next nothing was done."""
    found: list[str] = []

    async def obey(decisions: Sequence[PlacementDecided]) -> None:
        if decisions and len(found) == most:
            raise EnoughError
        found.extend(decision.job_id for decision in decisions)

    async def follow() -> None:
        follower = DecisionFollower(on_kafka.deployment, _MANAGER, at_once=1)
        await asyncio.wait_for(follower.run(obey), _WITHIN_S)

    with pytest.raises(EnoughError):
        asyncio.run(follow())
    return found


def test_a_resource_manager_goes_on_behind_what_it_obeyed(on_kafka: KafkaBackend) -> None:
    with admin_client(on_kafka.deployment) as client:
        ensure_topics(client, on_kafka.deployment, names=(DECISIONS,))
    decisions = [
        PlacementDecided(job_id=f"north/alpha/{n}/1", cluster="alpha", verdict=VERDICT_START)
        for n in range(21)
    ]
    on_kafka.append(map(new_record, decisions))
    first, then = obeyed(on_kafka, 12), obeyed(on_kafka, 8)
    assert len({*first, *then}) == 20
    assert {*first, *then} < {decision.job_id for decision in decisions}

"""A cluster whose API server answers is said to be there."""

import asyncio

import pytest
from coplace.v1.ingest_service_pb2 import Envelope

from shared.kubernetes.api import ApiUnavailableError
from shared.kubernetes.heartbeat import ClusterHeartbeat

NOW_US = 1_767_225_600_000_000


class Api:
    """Answers, unless it is down."""

    def __init__(self) -> None:
        self.is_down = False

    async def answer(self) -> None:
        if self.is_down:
            raise ApiUnavailableError("down")


class Facts:
    """Takes all."""

    def __init__(self) -> None:
        self.taken: list[Envelope] = []

    async def tell(self, event: Envelope) -> None:
        self.taken.append(event)


def test_it_speaks_for_its_cluster_alone() -> None:
    facts = Facts()
    asyncio.run(ClusterHeartbeat("north", "alpha", Api(), facts, lambda: NOW_US).beat())
    [event] = facts.taken
    word = event.manager_alive
    assert (event.source, word.manager) == ("north/alpha", "Kubernetes alpha of north")
    assert ([*word.clusters], word.alive_at_us) == (["alpha"], NOW_US)


def test_nothing_is_said_of_a_cluster_whose_api_server_does_not_answer() -> None:
    api, facts = Api(), Facts()
    api.is_down = True
    with pytest.raises(ApiUnavailableError):
        asyncio.run(ClusterHeartbeat("north", "alpha", api, facts, lambda: NOW_US).beat())
    assert facts.taken == []

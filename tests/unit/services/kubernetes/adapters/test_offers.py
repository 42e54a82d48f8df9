"""A job that fits on no cluster yet is submitted once each executor has reported its nodes."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JobSubmitted

from services.kubernetes.adapters import offers
from services.kubernetes.adapters.executor_nodes import ReportedNodes
from services.kubernetes.adapters.offers import JobOffers
from services.kubernetes.model.executor_nodes import node_body, node_spec
from shared.kubernetes.node_reporter import NodeReporter
from tests.unit.services.kubernetes.adapters.test_executor_nodes import seen
from tests.unit.shared.kubernetes.objects import NOW_US, TRAITS
from tests.unit.shared.kubernetes.test_node_reporter import Coplace


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers, "_SEEN_S", 0)


class Site:
    """Alpha has one node of zone a; beta has an executor that has reported nothing."""

    def __init__(self) -> None:
        self.coplace = Coplace()
        self.asked = list[JobSubmitted]()
        self.alpha, self.beta = self.reporter("alpha"), self.reporter("beta")
        self.alpha.replace("alpha", [seen("n1", zone="a")])
        reporters = {"alpha": self.alpha, "beta": self.beta}
        self.begun = asyncio.Event()
        self.offers = JobOffers(reporters, {"beta": self})

    def reporter(self, cluster: str, asked: Any = None) -> NodeReporter:
        traits = replace(TRAITS, cluster=cluster)
        asked = asked or (lambda: self.asked)
        taken: Any = (self.coplace, self.coplace, lambda: NOW_US, str, asked)
        return NodeReporter(traits, *taken)

    def report(self, *zones: str) -> None:
        """The executor of beta has reported these nodes."""
        nodes = [seen(f"b{number}", zone=zone) for number, zone in enumerate(zones)]
        ReportedNodes(self.beta).replace("beta", [node_body(node_spec(each, {})) for each in nodes])

    async def begin(self) -> None:
        """It has renewed its Lease, and that is seen."""
        self.begun.set()
        await self.beta.declare()
        await self.offers.follow(lambda: None)

    async def offer(self, **more: Any) -> str:
        asked = JobSubmitted(nodes=1, cores_per_unit=2, reference_cluster="alpha", **more)
        self.asked.append(asked)
        return await self.offers.offer(asked)


async def test_what_selects_labels_that_nobody_has_waits_for_the_executor() -> None:
    site = Site()
    why = (
        "it may fit on beta alone, and its executor has not reported nodes that make a cluster yet"
    )
    assert await site.offer(features="zone=b") == why
    site.report("b")
    await site.begin()
    assert not await site.offer(features="zone=b")
    assert site.beta.declaration is not None


async def test_what_does_not_fit_on_the_first_nodes_waits_for_all_of_them() -> None:
    """They are reported one after the other."""
    site = Site()
    site.report("b")
    assert await site.offer(features="zone=c")
    site.report("b", "c")
    await site.begin()
    assert not await site.offer(features="zone=c")


async def test_what_is_too_large_for_what_is_declared_waits_too() -> None:
    site = Site()
    assert await site.offer(resources_per_unit={"nvidia.com/gpu": 1})


async def test_what_fits_on_a_declared_cluster_waits_for_no_executor() -> None:
    site = Site()
    assert not await site.offer(features="zone=a")
    assert not await site.offer()


async def test_what_stays_at_home_waits_for_no_executor() -> None:
    assert not await Site().offer(features="zone=b", clusters=["alpha"])


async def test_once_all_executors_have_reported_nothing_waits_for_them() -> None:
    """Placement says of it that it fits nowhere."""
    site = Site()
    site.report("b")
    await site.begin()
    assert not await site.offer(features="zone=c")


async def test_jobs_are_looked_at_again_once_an_executor_has_reported() -> None:
    site, looks = Site(), list[int]()
    following = asyncio.create_task(site.offers.follow(lambda: looks.append(1)))
    await asyncio.sleep(0)
    assert not looks
    site.report("b")
    site.begun.set()
    await site.beta.declare()
    await following
    assert looks == [1]


async def test_a_cluster_of_which_nothing_is_known_is_not_declared_for_each_job() -> None:
    """Thousands wait, and each declaration reads what all of them ask for."""
    site, reads = Site(), list[int]()

    def all_asked() -> list[JobSubmitted]:
        reads.append(1)
        return site.asked

    site.beta = site.reporter("beta", all_asked)
    site.offers = JobOffers({"alpha": site.alpha, "beta": site.beta}, {"beta": site})
    assert await site.offer(features="zone=b")
    assert not reads


async def test_nothing_waits_for_an_executor_beside_a_cluster_that_cannot_be_declared() -> None:
    """Placement may know that cluster from before."""
    site = Site()
    site.alpha.replace("alpha", [])
    assert not await site.offer(features="zone=b")

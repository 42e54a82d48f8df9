"""What `coplace conformance` plays of Coplace towards an adapter."""

from collections.abc import AsyncIterator

import grpc
import pytest
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from coplace_client.calls import UnansweredError
from coplace_client.channels import GrpcFiles
from coplace_client.decisions import AsyncDecisionWatcher, of_clusters
from coplace_client.facts import submitted
from coplace_client.ingest import FactRefusedError, IngestClient, Patience
from coplace_testing.conformance.checks import AdapterCheck, AnswerTimes
from coplace_testing.conformance.region import PlayedRegion
from coplace_testing.conformance.rules import AdapterRule
from deploy.local.ports import free_ports

BEGUN_US = 1_800_000_000_000_000


class Played:
    """A region that is played, and where an adapter connects."""

    def __init__(self, region: PlayedRegion, ingest: int, watch: int) -> None:
        self.region = region
        self.ingest, self.watch = (f"127.0.0.1:{port}" for port in (ingest, watch))

    def client(self) -> IngestClient:
        """Return a client of ingest."""
        return IngestClient(self.ingest, GrpcFiles(), Patience())

    def watcher(self, cursor: str = "") -> AsyncDecisionWatcher:
        """Return a watcher of decisions."""
        request = of_clusters("north", ["alpha"], cursor, from_earliest=True)
        return AsyncDecisionWatcher(self.watch, GrpcFiles(), request)


@pytest.fixture
async def played() -> AsyncIterator[Played]:
    """A region without an adapter."""
    ingest, watch = free_ports(2)
    async with PlayedRegion(ingest, watch) as region:
        yield Played(region, ingest, watch)


def job(number: int, walltime_s: float = 60) -> JobSubmitted:
    """A job that waits."""
    return JobSubmitted(
        job_id=f"north/alpha/{number}/1",
        attempt=1,
        user="ada",
        account="lab",
        nodes=1,
        walltime_s=walltime_s,
        reference_cluster="alpha",
        submitted_at_us=BEGUN_US - 100_000_000_000_000,
    )


async def test_an_adapter_that_submits_nothing_fails_the_first_rule_alone(played: Played) -> None:
    check = AdapterCheck(played.region, AnswerTimes(begin_s=0.1, answer_s=0.1))
    [finding] = [each async for each in check.findings()]
    assert finding.rule is AdapterRule.SUBMISSIONS
    assert finding.row()["result"] == "failed"
    assert finding.row()["what to do"]


async def test_facts_are_refused_as_ingest_refuses_them(played: Played) -> None:
    async with played.client() as client:
        await client.publish(submitted("north", job(1)))
        with pytest.raises(FactRefusedError, match="walltime_s"):
            await client.publish(submitted("north", job(2, walltime_s=-1)))
        refused = await client.publish_all([submitted("north", job(3, walltime_s=-1))])
    assert [*refused] == [0]
    assert [each.was_taken for each in played.region.reported] == [True, False, False]


async def test_while_it_is_unavailable_nothing_counts_as_taken(played: Played) -> None:
    played.region.is_unavailable = True
    async with played.client() as client:
        with pytest.raises(UnansweredError):
            await client.publish(submitted("north", job(1)))
    assert not played.region.events("job_submitted")


async def test_decisions_come_behind_the_cursor_and_again_where_they_are_repeated(
    played: Played,
) -> None:
    for name in ("first", "second"):
        played.region.decide(PlacementDecided(job_id=name, verdict=VERDICT_START))
    decisions = aiter(played.watcher())
    (first, cursor), (second, _) = [await anext(decisions) for _ in range(2)]
    assert [first.job_id, second.job_id] == ["first", "second"]
    await played.region.cut(repeat=1)
    assert (await anext(decisions)).decision.job_id == "second"
    assert (await anext(aiter(played.watcher(cursor)))).decision.job_id == "second"


async def test_a_cursor_of_another_deployment_is_refused(played: Played) -> None:
    with pytest.raises(UnansweredError) as error:
        await anext(aiter(played.watcher("AAAA")))
    assert error.value.code is grpc.StatusCode.INVALID_ARGUMENT

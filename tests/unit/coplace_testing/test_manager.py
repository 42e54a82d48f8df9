"""Resource managers that do what is decided."""

from decimal import Decimal

import pytest
from coplace.v1.authority_pb2 import (
    AUTHORITY_ROLE_OPERATOR,
    AUTHORITY_ROLE_RESOURCE_MANAGER,
    AuthorityDeclared,
    RoleBinding,
)
from coplace.v1.control_pb2 import ClusterDeclared, NodeClass
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JobActionRefused,
    JobCancelled,
    JobFinished,
    JobSeized,
    JobStarted,
    JobSuspended,
)
from google.protobuf.message import Message

from coplace_testing import CLUSTERS, ObedientManager, Region
from tests.unit.coplace_testing.jobs import job


def facts(region: Region, kind: type[Message]) -> list[Message]:
    return [fact for fact in region.messages("jobs.events") if isinstance(fact, kind)]


def finished(region: Region) -> list[JobFinished]:
    return [fact for fact in facts(region, JobFinished) if isinstance(fact, JobFinished)]


def test_a_job_runs_for_half_of_its_walltime_and_is_charged() -> None:
    region = Region()
    ObedientManager(region)
    region.send(job(region, 1, nodes=3, walltime_s=100.0))
    region.advance(10)
    region.advance(300)
    [end] = finished(region)
    assert (end.outcome, end.nodes, end.cores) == (JOB_OUTCOME_COMPLETED, 3, 3 * 36)
    assert end.ended_at_us - end.started_at_us == 50_000_000
    [charge] = region.charges()
    assert Decimal(charge.price_su) == Decimal(charge.rate_su_per_core_s) * 3 * 36 * 50
    assert region.dead_letters() == []


def test_each_start_may_run_as_long_as_it_says() -> None:
    region = Region()
    ObedientManager(region, lambda start: 7.0 if start.job_id.startswith("north/alpha/1/") else 9.0)
    region.send(job(region, 1), job(region, 2))
    region.advance(60)
    assert [end.ended_at_us - end.started_at_us for end in finished(region)] == [7e6, 9e6]


def test_a_finish_tells_the_cores_and_resources_of_all_units() -> None:
    cluster = ClusterDeclared()
    cluster.CopyFrom(CLUSTERS[0])
    cluster.node_names.append("n[01-16]")
    cluster.node_classes.append(NodeClass(nodes=16, resources={"gpu": 4}))
    region = Region([cluster])
    ObedientManager(region)
    parts = {"cores_per_unit": 9, "resources_per_unit": {"gpu": 1}, "units_per_node": 2}
    region.send(job(region, 1, nodes=3, shareable=True, walltime_s=60.0, **parts))
    region.advance(60)
    [started] = facts(region, JobStarted)
    assert isinstance(started, JobStarted)
    assert [*started.nodes] == ["n[01-02]"]
    assert sorted(started.node_units) == [1, 2]
    [end] = finished(region)
    assert (end.nodes, end.cores_per_node, end.cores) == (2, 18, 27)
    assert dict(end.resources) == {"gpu": 3}
    assert region.dead_letters() == []


def test_a_job_that_is_cancelled_ends() -> None:
    region = Region()
    ObedientManager(region)
    region.send(job(region, 1))
    region.advance(60)
    region.send(JobCancelled(job_id=job(region, 1).job_id, cancelled_at_us=region.now_us))
    region.advance(3600)
    [end] = finished(region)
    assert end.outcome == JOB_OUTCOME_CANCELLED


def test_a_run_that_was_seized_is_dropped_without_a_word() -> None:
    region = Region()
    ObedientManager(region)
    region.send(job(region, 1))
    region.advance(60)
    seized = JobSeized(
        job_id=job(region, 1).job_id, attempt=1, reason="no power", seized_at_us=region.now_us
    )
    region.send(seized)
    region.advance(3600)
    [end] = finished(region)
    assert (end.attempt, end.grant) == (2, 2)


def test_what_is_asked_of_a_run_is_refused() -> None:
    region = Region()
    ObedientManager(region)
    region.send(job(region, 1))
    region.advance(60)
    region.send(JobSuspended(job_id=job(region, 1).job_id, suspended_at_us=region.now_us))
    region.advance(60)
    [refused] = facts(region, JobActionRefused)
    assert isinstance(refused, JobActionRefused)
    assert refused.reason == "it is not played"
    assert region.dead_letters() == []


@pytest.mark.parametrize("identity", ["", "root"])
def test_managers_speak_as_somebody(identity: str) -> None:
    region = Region()
    if identity:
        every = {"sites": ["*"], "accounts": ["*"]}
        roles = (AUTHORITY_ROLE_OPERATOR, AUTHORITY_ROLE_RESOURCE_MANAGER)
        bindings = [RoleBinding(who="root", role=role, **every) for role in roles]
        table = AuthorityDeclared(version=1, bindings=bindings, declared_at_us=region.now_us)
        region.send(table, identity=identity)
    ObedientManager(region, identity=identity)
    region.send(job(region, 1), identity=identity)
    region.advance(3600)
    assert len(finished(region)) == 1

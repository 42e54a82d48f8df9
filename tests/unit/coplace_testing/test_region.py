"""A region in one process does what one of processes does, and says so in messages."""

import pytest
from coplace.v1.authority_pb2 import (
    AUTHORITY_ROLE_OPERATOR,
    AUTHORITY_ROLE_RESOURCE_MANAGER,
    AUTHORITY_ROLE_USER,
    AuthorityDeclared,
    RoleBinding,
)
from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    ClusterDeclared,
    PolicyDeclared,
    PowerCapDeclared,
    PowerCapStep,
)
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobCancelled, JobStarted, JobSubmitted
from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_POWER_BUDGET,
    VERDICT_QUEUED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)
from coplace.v1.placement_service_pb2 import JOB_STANDING_DECIDED, JOB_STANDING_RESERVED
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.telemetry_pb2 import SignatureMeasured
from typer.testing import CliRunner

from cli.main import app
from coplace_testing import CLUSTERS, ObedientManager, Region, RejectedError
from tests.unit.cli.served import Served
from tests.unit.coplace_testing.jobs import job

BEGIN_US = 1_767_225_600_000_000


def cap(watts: float, scope: int = POWER_SCOPE_REGION, name: str = "") -> PowerCapDeclared:
    steps = [PowerCapStep(from_us=BEGIN_US, watts=watts)]
    return PowerCapDeclared(scope=scope, name=name, steps=steps, declared_at_us=BEGIN_US)  # type: ignore[arg-type]


def verdicts(region: Region) -> list[int]:
    return [decision.verdict for decision in region.decisions()]


def test_time_is_virtual_and_rounds_end_in_it() -> None:
    region, ended_us = Region(round_s=20.0), list[int]()
    region.each_round(lambda: ended_us.append(region.now_us))
    region.advance(50)
    assert [us - BEGIN_US for us in ended_us] == [20_000_000, 40_000_000, 50_000_000]
    assert (region.now_us, region.now_s) == (ended_us[-1], 1_767_225_650.0)


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e-9])
def test_time_passes_forwards_alone(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"seconds must be at least 0\.000001 s"):
        Region().advance(seconds)
    with pytest.raises(ValueError, match="round_s must be"):
        Region(round_s=seconds)


def test_a_job_is_decided_at_the_end_of_the_round_and_all_decisions_stay() -> None:
    region = Region()
    region.send(*(job(region, number, nodes=16) for number in range(3)))
    assert region.decisions() == []
    region.advance(1)
    assert verdicts(region) == [VERDICT_START, VERDICT_START, VERDICT_QUEUED]
    assert region.decisions() == region.decisions()
    region.advance(600)
    assert verdicts(region)[3:5] == [VERDICT_WITHDRAWN, VERDICT_WITHDRAWN]


def test_a_whole_envelope_keeps_its_id_and_a_copy_of_it_changes_nothing() -> None:
    region = Region()
    event = Envelope(id="north/1", source="north", time_us=region.now_us)
    event.job_submitted.CopyFrom(job(region, 1))
    region.send(event, event)
    region.advance(60)
    region.send(event)
    region.advance(60)
    assert len(region.messages("jobs.events")) == 3
    assert verdicts(region) == [VERDICT_START]


def test_what_ingest_refuses_is_raised_with_the_field_and_what_came_before_is_in() -> None:
    region = Region()
    with pytest.raises(RejectedError) as refused:
        region.send(job(region, 1), job(region, 2, nodes=0), job(region, 3))
    assert refused.value.field == "job_submitted.nodes"
    assert len(region.messages("jobs.events")) == 1


def test_a_message_that_nobody_sends_is_refused_with_those_that_are() -> None:
    with pytest.raises(RejectedError, match=r"payload: ingest takes no coplace\.v1\.ChargeMade"):
        Region().send(ChargeMade())
    with pytest.raises(RejectedError, match="payload: must be one of job_submitted"):
        Region().send(Envelope(id="a", source="a", time_us=BEGIN_US))


def test_nobody_speaks_for_somebody_else() -> None:
    region = Region()
    event = Envelope(id="north/1", source="north", time_us=region.now_us)
    event.job_submitted.CopyFrom(job(region, 1))
    with pytest.raises(RejectedError, match="source: must be 'south'"):
        region.send(event, identity="south")
    region.send(event, identity="north")


def binding(who: str, role: int, **of: list[str]) -> RoleBinding:
    return RoleBinding(who=who, role=role, **of)  # type: ignore[arg-type]


def table(version: int = 1, who: str = "root") -> AuthorityDeclared:
    bindings = [
        binding(who, AUTHORITY_ROLE_OPERATOR, sites=["*"], accounts=["*"], users=["*"]),
        binding("north", AUTHORITY_ROLE_RESOURCE_MANAGER, sites=["north"], accounts=["*"]),
        binding("eve", AUTHORITY_ROLE_USER, accounts=["physics"]),
    ]
    return AuthorityDeclared(version=version, bindings=bindings, declared_at_us=BEGIN_US)


def test_a_table_of_authority_holds_from_when_it_is_declared() -> None:
    region = Region()
    region.send(job(region, 1))
    region.send(table(), identity="root")
    with pytest.raises(RejectedError, match="identity: '' may not job_submitted"):
        region.send(job(region, 2))
    with pytest.raises(RejectedError, match=r"'eve' may not job_submitted job north/alpha/2/"):
        region.send(job(region, 2), identity="eve")
    region.send(job(region, 2), identity="north")


def test_a_start_is_reported_by_who_it_was_granted_to() -> None:
    region = Region([CLUSTERS[0]])
    region.send(table(), identity="root")
    region.send(job(region, 1), identity="north")
    started = JobStarted(
        job_id=job(region, 1).job_id,
        attempt=1,
        cluster="alpha",
        nodes=["alpha-0000"],
        started_at_us=region.now_us,
        grant=1,
    )
    region.advance(1)
    region.send(started, identity="north")
    with pytest.raises(RejectedError, match="'eve' may not job_started"):
        region.send(started, identity="eve")


def test_a_first_table_is_declared_by_a_name_that_stays_its_operator() -> None:
    region = Region()
    with pytest.raises(RejectedError, match="nobody is known by name here"):
        region.send(table())
    with pytest.raises(RejectedError, match=r"authority_declared\.version: must be 1, got 2"):
        region.send(table(2), identity="root")
    with pytest.raises(RejectedError, match=r"authority_declared\.bindings: 'root' must be"):
        region.send(table(who="other"), identity="root")


def test_clusters_settings_and_caps_are_declared_at_the_beginning() -> None:
    region = Region(
        [CLUSTERS[0]],
        {"policy": "min-energy", "start_timeout_s": "60"},
        [cap(16 * 105.0 + 500.0, POWER_SCOPE_CLUSTER, "alpha")],
    )
    kinds = [type(message) for message in region.messages("commands")]
    assert kinds == [ClusterDeclared, PowerCapDeclared, PolicyDeclared]
    signature = SignatureMeasured(
        app_id="lu.C",
        node_model="gold-6254",
        freq_ghz=3.1,
        time_s=2.0,
        power_w=300.0,
        cpi=0.8,
        tpi=0.01,
        mem_gbps=40.0,
        tpi_scale="test",
    )
    region.send(signature)
    region.advance(10)
    region.send(*(job(region, number, nodes=2, app_id="lu.C") for number in range(2)))
    region.advance(20)
    started, queued = region.decisions()
    assert (started.verdict, started.policy) == (VERDICT_START, "min-energy")
    assert {one.kind for one in queued.constraints} == {CONSTRAINT_KIND_POWER_BUDGET}


def test_a_setting_that_cannot_be_is_refused() -> None:
    with pytest.raises(RejectedError, match="max_slowdown"):
        Region(policy={"max_slowdown": "0.5"})
    with pytest.raises(RejectedError, match="not a setting of this release"):
        Region(policy={"colour": "red"})


def test_a_planner_runs_beside_placement_where_it_is_asked_for() -> None:
    region = Region(planner=True)
    ObedientManager(region)
    region.send(*(job(region, number, nodes=9) for number in range(4)))
    region.advance(60)
    region.restart("planner")
    region.advance(7200)
    assert len(region.charges()) == 4


def test_a_job_is_explained_as_the_command_explains_it() -> None:
    region = Region()
    region.send(*(job(region, number, nodes=10) for number in range(3)))
    region.advance(10)
    waits = job(region, 2).job_id
    assert region.explain(job(region, 0).job_id).standing == JOB_STANDING_DECIDED
    answer = region.explain(waits)
    assert answer.standing == JOB_STANDING_RESERVED
    assert answer.forecast.start_at_us == region.now_us + 3_100_000_000, "on beta"
    with Served(region._services.duty) as address:
        said = CliRunner().invoke(app, ["why", waits, "--address", address])
    assert region.why(waits) == said.output, said.exception


def test_a_job_that_is_not_known_cannot_be_explained() -> None:
    with pytest.raises(RejectedError, match="job_id: 'nobody' is not known"):
        Region().explain("nobody")


def test_what_a_service_refuses_is_a_dead_letter() -> None:
    region = Region()
    submitted = job(region, 1)
    region.send(submitted)
    region.advance(10)
    started = JobStarted(
        job_id=submitted.job_id,
        attempt=1,
        cluster="alpha",
        nodes=["beta-0001"],
        started_at_us=region.now_us,
        grant=1,
    )
    region.send(started)
    region.advance(10)
    letters = {letter.stage: letter.reason for letter in region.dead_letters()}
    assert "'beta-0001' is not a node of alpha" in letters["placement"]


def played(seed: int, *, restarts: bool = False) -> Region:
    region = Region(seed=seed)
    ObedientManager(region)
    for number in range(12):
        region.send(job(region, number, nodes=1 + 5 * number % 16, walltime_s=900.0))
        region.advance(45)
        if restarts and number % 3 == 0:
            for service in ("energy", "prediction", "placement", "pricing"):
                region.restart(service)
    region.send(JobCancelled(job_id=job(region, 11).job_id, cancelled_at_us=region.now_us))
    region.advance(7200)
    return region


def test_the_same_calls_come_to_the_same_and_restarts_change_nothing() -> None:
    first, second, restarted = played(1), played(1), played(1, restarts=True)
    assert first.decisions() == second.decisions() == restarted.decisions()
    assert first.charges() == second.charges() == restarted.charges()
    assert len(first.charges()) == 11, "one was cancelled in the queue"
    assert first.dead_letters() == []


def test_services_may_take_their_turns_in_any_order() -> None:
    jobs = {(d.job_id, d.verdict) for d in played(1).decisions()}
    assert {(d.job_id, d.verdict) for d in played(2).decisions()} == jobs


def test_a_service_that_does_not_run_cannot_restart() -> None:
    with pytest.raises(KeyError):
        Region().restart("planner")


def test_messages_of_a_topic_have_no_ends_of_rounds() -> None:
    region = played(1)
    kinds = {type(message) for message in region.messages("placement.inputs")}
    assert {JobSubmitted, ClusterDeclared} <= kinds
    assert {type(message) for message in region.messages("placement.decisions")} == {
        PlacementDecided
    }

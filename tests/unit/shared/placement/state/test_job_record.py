"""A job is read from its row as it was, and no row of before versions is taken for one."""

from math import inf

import msgspec
import pytest
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import MISFIT_KIND_NODES

from shared.catalogue.payloads.domain_types import job_of
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.job import Condition, Dependency, JobState
from shared.placement.processor.placement import Placement
from shared.placement.state.actions import (
    Action,
    ActionCause,
    ActionKind,
    CapShortage,
    CauseKind,
    Refused,
)
from shared.placement.state.closure import Closure
from shared.placement.state.grants import VoidStart, WithdrawalKind, WithdrawalReason
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import (
    JOBS,
    Evaluated,
    Grants,
    Guarantee,
    GuaranteeState,
    JobRecord,
    Life,
    Notice,
    PlacedRun,
    Requests,
)
from shared.placement.state.misfit import Misfit
from shared.scheduling.power import Scope
from shared.streams.state.rows import UnreadableRowError
from tests.unit.shared.placement.region import submitted

_SUBMITTED = JobSubmitted.FromString(
    submitted("a", resources_per_unit={"gpu": 2}, cores_per_unit=4).payload.SerializeToString()
)


def full_record() -> JobRecord:
    """A job of which everything is known that can be."""
    closure = Closure(5.0, "maintenance", "ada")
    why = WithdrawalReason(WithdrawalKind.CLUSTER_CLOSED, "p1", closure=closure)
    cap = CapShortage(Scope.SITE, "north", 7_000, -3, 1.0, inf, "other", "ada", "heat", 2)
    cause = ActionCause(CauseKind.OVER_CAP, caps=(cap,))
    action = Action(3, ActionKind.SUSPEND, 1.5, 900, 60.0, True, 9.0, cause)
    on = JobAllocation("p1", (0, 1, 2, 7), 60.0, 90.0, 4, 800, (2, 2, 2, 1), 2.5, plan_round=6)
    return JobRecord(
        job=job_of(_SUBMITTED),
        arrival=12,
        traceparent="trace",
        life=Life(
            JobState.RUNNING, 3.0, True, 0.5, (Dependency("b", Condition.AFTER_ANY),), 2, "failed"
        ),
        evaluated=Evaluated((), 4, True, (Misfit("p2", MISFIT_KIND_NODES, "few", 9.0, 4.0),)),
        grants=Grants(4, why, True, 1, (VoidStart(1, 2, "p2", why),), ()),
        requests=Requests("held", "", (8, "x"), True, "later", (9, "y"), None, (1, "z"), (2, "w")),
        run=PlacedRun(on, "p9", (action,), 3, 2, (Refused(ActionKind.RESUME, 4.5),)),
        guarantee=Guarantee(1.25, GuaranteeState.KEPT),
        notice=Notice(2, "p1: full", 700.0),
    )


def test_a_job_comes_back_as_it_was() -> None:
    assert JOBS.decode(JOBS.encode(full_record())) == full_record()


def test_a_job_of_the_version_before_is_read_as_one_that_may_start_anywhere_at_any_time() -> None:
    row = msgspec.msgpack.decode(JOBS.encode(full_record())[2:])
    job, life = row[0], row[3]
    for name in ("begin_s", "deadline_s", "depends_on_any", "job_name", "sequence"):
        assert not job.pop(name)
    for name in ("partitions", "features", "nodes_wanted", "nodes_excluded", "clusters"):
        assert not job.pop(name)
    assert life.pop() == life.pop() == full_record().life.started_s == 0.0
    for dependency in life[4]:
        del dependency["delay_s"], dependency["due_s"]
    assert JOBS.decode(b"\xc1\x02" + msgspec.msgpack.encode(row)) == full_record()


def test_a_job_on_all_nodes_of_a_large_cluster_takes_no_more_than_one_on_a_few() -> None:
    one, many = full_record(), full_record()
    assert one.run.allocation is not None
    assert many.run.allocation is not None
    one.run.allocation.nodes, one.run.allocation.units = (0,), ()
    many.run.allocation.nodes, many.run.allocation.units = tuple(range(100_000)), ()
    assert len(JOBS.encode(many)) - len(JOBS.encode(one)) < 10
    assert JOBS.decode(JOBS.encode(many)) == many


@pytest.mark.parametrize(
    ("key", "row"),
    [("job|a", "row 'a' of table 'job'"), ("known/x", "row '' of table 'known/x'")],
)
def test_a_state_of_before_rows_had_versions_is_refused_with_what_to_do(key: str, row: str) -> None:
    with pytest.raises(UnreadableRowError, match=r"before 0\.1\.0.*coplace restore replay") as told:
        Placement({key: b"{}"}, PolicySettings(), 7.0)
    assert row in str(told.value)

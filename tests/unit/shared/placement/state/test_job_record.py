"""A job is read from its row as it was, and no row of before versions is taken for one."""

from math import inf

import msgspec
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import MISFIT_KIND_NODES

from shared.catalogue.payloads.domain_types import job_of
from shared.domain.job import Condition, Dependency, JobState
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
from shared.placement.state.holds import Holder, HoldWord
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
from tests.unit.shared.placement.region import submitted

_SUBMITTED = JobSubmitted.FromString(
    submitted("a", resources_per_unit={"gpu": 2}, cores_per_unit=4).payload.SerializeToString()
)


HOLDS = (HoldWord(Holder.OPERATOR, (8, "x"), "held"),)


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
        requests=Requests(HOLDS, "", True, "later", (9, "y"), None, (1, "z"), (2, "w")),
        run=PlacedRun(on, "p9", (action,), 3, 2, (Refused(ActionKind.RESUME, 4.5),)),
        guarantee=Guarantee(1.25, GuaranteeState.KEPT),
        notice=Notice(2, "p1: full", 700.0),
    )


def test_a_job_comes_back_as_it_was() -> None:
    assert JOBS.decode(JOBS.encode(full_record())) == full_record()


def test_a_job_of_the_version_before_is_read_as_one_that_its_user_holds() -> None:
    def before(holds: tuple[object, ...]) -> JobRecord:
        row = msgspec.msgpack.decode(JOBS.encode(full_record())[2:])
        row[6][:3] = holds
        return JOBS.decode(b"\xc1\x03" + msgspec.msgpack.encode(row))

    by_user, freed = HoldWord(Holder.USER, (8, "x"), "held"), HoldWord(Holder.ALL, (8, "x"), None)
    for holds, read in (
        (("held", "", (8, "x"), False), (by_user,)),
        (("held", "", (8, "x"), True), (by_user._replace(holder=Holder.PLACEMENT),)),
        ((None, "", (8, "x"), False), (freed,)),
        ((None, "", (0, ""), False), ()),
    ):
        known, expected = before(holds), full_record()
        expected.requests.holds, expected.requests.isolated = read, bool(holds[3])
        assert known == expected

"""The same follows from a decision whenever it is read again."""

from dataclasses import replace
from typing import Any

from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_REQUEUE,
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    Action,
    PlacementDecided,
)

from services.kueue.model.records import PastRun, WorkloadRecord
from services.kueue.processor.decisions import obeying
from services.kueue.processor.effects import KeepRecord
from services.kueue.processor.seen import Moment, SeenWorkload, Surroundings
from shared.kubernetes.claims import AfterStop, GrantClaim
from shared.kubernetes.effects import PublishFact
from shared.kueue.workloads import CheckNames, KueueWorkload
from tests.unit.services.kueue.objects import CHECKS, LIVE, NOW_US, TERMS, recorded, workload

AT = "2026-01-01T00:00:00Z"
PENDING = {"admissionChecks": [{"name": "placement", "state": "Pending"}]}
MOMENT = Moment(TERMS, NOW_US)


def reserved(**more: Any) -> KueueWorkload:
    return workload(PENDING, QuotaReserved=AT, **more)


def decided(verdict: Any = VERDICT_START, **more: Any) -> PlacementDecided:
    fields = {"job_id": "j", "attempt": 1, "grant": 3, "cluster": "alpha", "freq_ghz": 2.1}
    fields |= {"walltime_s": 60, "node_names": ["n1"]}
    return PlacementDecided(verdict=verdict, **{**fields, **more})


def seen(found: KueueWorkload | None = None) -> SeenWorkload:
    around = Surroundings(CHECKS, CHECKS)
    return SeenWorkload(found or reserved(), around=around)


def kept(effects: Any) -> WorkloadRecord:
    [found] = [each.record for each in effects if isinstance(each, KeepRecord)]
    assert isinstance(found, WorkloadRecord)
    return found


def declined(effects: Any) -> str:
    [found] = [
        each.event.job_declined.reason
        for each in effects
        if isinstance(each, PublishFact) and each.event.HasField("job_declined")
    ]
    return str(found)


def test_a_start_is_claimed_for_its_reservation() -> None:
    found = kept(obeying(decided(), seen(), None, MOMENT))
    assert (found.claim.grant, found.claim.is_live, found.claim.has_begun) == (3, True, False)
    assert found.reservation == reserved().reservation
    assert obeying(decided(), seen(), found, MOMENT) == ()


def test_a_start_of_an_attempt_that_ran_without_a_grant_is_declined() -> None:
    """It was decided before placement heard of that run."""
    ran = replace(LIVE, grant=0, attempt=1, run_uid="x")
    waits_again = recorded(claim=GrantClaim(attempt=2), past=PastRun(ran, "Evicted", NOW_US))
    assert "ran without a grant" in declined(obeying(decided(), seen(), waits_again, MOMENT))
    assert kept(obeying(decided(attempt=2, grant=4), seen(), waits_again, MOMENT)).claim.is_live
    forgotten = recorded(claim=GrantClaim(attempt=2))
    assert kept(obeying(decided(), seen(), forgotten, MOMENT)).claim.is_live, "no end was published"


def test_a_start_lifts_the_hold_that_it_crossed() -> None:
    held = recorded().held("r", NOW_US)
    found = kept(obeying(decided(), seen(), held, MOMENT))
    assert (found.hold.is_held, found.hold.at_us) == (False, NOW_US + 1)


def test_what_has_no_quota_is_held_and_its_start_left_to_be_withdrawn() -> None:
    without = seen(workload(PENDING))
    [effect] = obeying(decided(), without, None, MOMENT)
    assert kept([effect]).hold.is_held
    assert obeying(decided(), without, recorded().held("", 1), MOMENT) == ()
    withdrawn = obeying(decided(VERDICT_WITHDRAWN), without, recorded().held("", 1), MOMENT)
    assert declined(withdrawn) == "as asked"
    assert kept(withdrawn).claim.declined == 3


def test_a_start_that_cannot_be_is_declined_with_the_reason() -> None:
    cases = [
        (decided(start_by_us=NOW_US - 1), seen(), recorded(), "too late"),
        (decided(node_names=[]), seen(), recorded(), "the decision names no nodes"),
        (decided(cluster="beta"), seen(), recorded(), "Kueue sends it to no cluster beta"),
        (decided(grant=4), seen(), recorded(claim=LIVE), "the run under grant 3 has not ended"),
        (decided(), seen(reserved(Finished=AT)), recorded(), "the Workload has ended"),
        (decided(walltime_s=0), seen(), recorded(), "walltime_s"),
    ]
    for decision, there, record, words in cases:
        effects = obeying(decision, there, record, MOMENT)
        assert words in declined(effects), words
        assert kept(effects).claim.declined == decision.grant


def test_of_one_that_is_not_there_the_job_is_cancelled() -> None:
    first, second = obeying(decided(), None, None, MOMENT)
    assert declined([first]) == "the Workload has ended or was deleted"
    assert isinstance(second, PublishFact)
    assert second.event.job_cancelled.job_id == "j"
    assert obeying(decided(VERDICT_ACTION), None, None, MOMENT) == ()


def test_who_cancels_goes_before_a_run_that_is_not_the_jobs_any_more() -> None:
    """Nobody would start it again, and it would wait for ever."""
    live = recorded(claim=LIVE)
    void = kept(obeying(decided(VERDICT_WITHDRAWN, is_void=True), seen(), live, MOMENT))
    found = kept(obeying(decided(VERDICT_CANCELLED), seen(), void, MOMENT))
    assert found.stop is not None
    assert found.stop.then is AfterStop.CANCEL
    assert obeying(decided(VERDICT_WITHDRAWN, is_void=True), seen(), found, MOMENT) == ()


def test_a_start_that_took_place_crosses_a_withdrawal_unless_that_is_void() -> None:
    live = recorded(claim=LIVE)
    assert obeying(decided(VERDICT_WITHDRAWN), seen(), live, MOMENT) == ()
    found = kept(obeying(decided(VERDICT_WITHDRAWN, is_void=True), seen(), live, MOMENT))
    assert found.stop is not None
    assert found.stop.then is AfterStop.FORGET


def test_one_that_was_sent_away_is_recalled_while_its_check_there_is_pending() -> None:
    manager = CheckNames(dispatched={"multikueue": ["alpha"]})
    status = {"admissionChecks": [{"name": "multikueue", "state": "Pending"}]}
    root = KueueWorkload("manager", workload(status, QuotaReserved=AT).fields)
    around = Surroundings(manager, CHECKS)
    there = SeenWorkload(root, copy=workload(PENDING), around=around)
    live = recorded(claim=LIVE)
    stop = kept(obeying(decided(VERDICT_WITHDRAWN), there, live, MOMENT)).stop
    assert stop is not None
    assert stop.then is AfterStop.DECLINE
    ready = {"admissionChecks": [{"name": "placement", "state": "Ready"}]}
    for copy in (workload(ready), workload({}), None):
        crossed = replace(there, copy=copy)
        assert obeying(decided(VERDICT_WITHDRAWN), crossed, live, MOMENT) == ()


def test_a_cancelled_one_is_closed_or_ended() -> None:
    cancelled = decided(VERDICT_CANCELLED, reason="by ada", grant=0, cluster="")
    assert kept(obeying(cancelled, seen(), recorded(), MOMENT)).outcome == "cancelled: by ada"
    found = kept(obeying(cancelled, seen(), recorded(claim=LIVE), MOMENT))
    assert found.stop is not None
    assert found.stop.then is AfterStop.CANCEL
    assert obeying(cancelled, seen(), recorded(outcome="completed"), MOMENT) == ()


def test_actions_are_done_or_refused() -> None:
    live = recorded(claim=LIVE)

    def acted(kind: Any) -> Any:
        return obeying(decided(VERDICT_ACTION, action=Action(kind=kind)), seen(), live, MOMENT)

    for kind, then in (
        (ACTION_KIND_END, AfterStop.CANCEL),
        (ACTION_KIND_REQUEUE, AfterStop.REQUEUE),
    ):
        stop = kept(acted(kind)).stop
        assert stop is not None
        assert stop.then is then
    [refused] = acted(ACTION_KIND_SUSPEND)
    assert "clock" in refused.event.job_action_refused.reason
    other = replace(live, claim=GrantClaim(4))
    assert obeying(decided(VERDICT_ACTION), seen(), other, MOMENT) == ()

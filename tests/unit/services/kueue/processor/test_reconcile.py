"""Edges of what follows from a state; courses of all are played in `test_courses.py`."""

from dataclasses import replace
from typing import Any

from services.kueue.processor.answers import stray
from services.kueue.processor.effects import (
    AnswerCheck,
    Deactivate,
    DropRecord,
    KeepRecord,
    Nominate,
    NoteRecalled,
    NotifyOwner,
)
from services.kueue.processor.ends import LAST_PODS_US
from services.kueue.processor.reconcile import reconcile
from services.kueue.processor.seen import Moment, SeenWorkload, Surroundings
from shared.kubernetes.claims import AfterStop, StopRequest
from shared.kubernetes.effects import LookAgain, PublishFact
from shared.kubernetes.explained_wait import ExplainedWait
from shared.kubernetes.pods import RunPod
from shared.kueue.names import RECALLED
from shared.kueue.workloads import CheckNames, CheckState, KueueWorkload
from tests.unit.services.kueue.objects import (
    CHECKS,
    LIVE,
    NOW_US,
    TERMS,
    pod_set,
    recorded,
    workload,
)

AT = "2026-01-01T00:00:00Z"
MOMENT = Moment(TERMS, NOW_US)
BEGUN = replace(LIVE, run_uid="x")


def checks(state: str, name: str = "placement") -> dict[str, Any]:
    return {"admissionChecks": [{"name": name, "state": state}]}


def seen(found: KueueWorkload, **more: Any) -> SeenWorkload:
    return SeenWorkload(found, around=Surroundings(CHECKS, CHECKS), **more)


def granted(found: KueueWorkload, claim: Any = LIVE, **more: Any) -> Any:
    return recorded(found, claim=claim, reservation=found.reservation, **more)


def written(effects: Any) -> list[Any]:
    kinds = (KeepRecord, DropRecord, AnswerCheck, Nominate, NoteRecalled, Deactivate)
    return [each for each in effects if isinstance(each, kinds)]


def test_what_has_nothing_to_do_with_coplace_is_left_alone() -> None:
    assert reconcile(seen(workload(QuotaReserved=AT)), None, MOMENT) == ()
    assert reconcile(seen(workload(checks("Pending"))), None, MOMENT) == ()


def test_what_cannot_be_taken_is_rejected_with_the_reason() -> None:
    found = workload(checks("Pending"), pod_set(cpu="many"), QuotaReserved=AT)
    [effect] = written(reconcile(seen(found), None, MOMENT))
    assert effect.state is CheckState.REJECTED
    assert "spec.podSets[0]" in effect.message


def test_without_pods_nothing_is_placed() -> None:
    found = workload(checks("Pending"), pod_set(count=0), QuotaReserved=AT)
    [effect] = reconcile(seen(found), None, MOMENT)
    assert isinstance(effect, AnswerCheck)
    assert effect.state is CheckState.READY


def test_a_hold_is_kept_first_and_retry_follows_when_no_start_can_come() -> None:
    found = workload(checks("Pending"), QuotaReserved=AT)
    late = seen(found, asked_us=NOW_US - 5_000_000, explained=ExplainedWait("no nodes"))
    [kept] = written(reconcile(late, None, MOMENT))
    assert kept.record.hold.is_held
    assert kept.record.explained.why == "no nodes"
    effects = reconcile(late, kept.record, MOMENT)
    assert written(effects) == []
    assert [each.after_s for each in effects if isinstance(each, LookAgain)] == [1.0]
    after = Moment(TERMS, NOW_US + 1_000_000)
    [retry] = written(reconcile(late, kept.record, after))
    assert (retry.state, retry.requeue_s) == (CheckState.RETRY, 5)
    assert retry.message == "Coplace: no nodes"


def test_a_claim_of_another_reservation_is_over() -> None:
    found = workload(checks("Pending"), QuotaReserved=AT)
    record = replace(granted(found), reservation="before")
    waits = seen(found, over_us=NOW_US)
    assert written(reconcile(waits, record, MOMENT)) == []
    later = seen(found, over_us=NOW_US - 5_000_000)
    [kept] = written(reconcile(later, record, MOMENT))
    assert (kept.record.claim.is_live, kept.record.claim.declined) == (False, 3)
    assert not kept.record.hold.is_held, "it has quota again"


def test_a_pod_that_never_ends_is_not_waited_for_for_ever() -> None:
    found = workload(checks("Ready"), Finished=AT, QuotaReserved=AT)
    pods = (RunPod("p", "physics", ready_us=NOW_US),)
    record = granted(found, BEGUN)
    early = seen(found, pods=pods, over_us=NOW_US)
    assert written(reconcile(early, record, MOMENT)) == []
    late = seen(found, pods=pods, over_us=NOW_US - LAST_PODS_US)
    [dropped] = written(reconcile(late, record, MOMENT))
    assert dropped == DropRecord(found, record, "cancelled")


def test_a_run_is_not_over_while_its_copy_may_run() -> None:
    root = workload(checks("Pending"))
    record = replace(granted(root, BEGUN), reservation="before")
    over = {"pods": (RunPod("p", "physics", ready_us=1, is_over=True),), "over_us": NOW_US - 9}
    there = seen(root, copy=workload(checks("Ready")), **over)
    assert written(reconcile(there, record, MOMENT)) == []
    [kept] = written(reconcile(replace(there, copy=None), record, MOMENT))
    assert kept.record.past is not None


def test_no_pods_seen_means_the_admission_counts() -> None:
    """Some kinds do not hand labels on to their pods."""
    at: dict[str, Any] = {"Finished": "2026-01-01T00:01:00Z", "Admitted": AT, "QuotaReserved": AT}
    found = workload(checks("Ready"), **at)
    [kept] = written(reconcile(seen(found, over_us=1), granted(found), MOMENT))
    assert kept.record.claim.at_us == 1_767_225_600_000_000


def test_the_start_names_the_nodes_where_pods_are_if_they_are_known() -> None:
    found = workload(checks("Ready"), pod_set(count=2), QuotaReserved=AT, Admitted=AT)
    pods = tuple(RunPod(n, "physics", n, ready_us=5) for n in ("n1", "n2"))
    around = Surroundings(CHECKS, CHECKS, hostnames={"n1": "", "n2": ""})
    there = SeenWorkload(found, pods=pods, around=around)
    [kept] = written(reconcile(there, granted(found), MOMENT))
    assert kept.record.claim.nodes == ("n[1-2]",)
    unknown = replace(there, around=Surroundings(CHECKS, CHECKS, hostnames={"n1": ""}))
    [kept] = written(reconcile(unknown, granted(found), MOMENT))
    assert kept.record.claim.nodes == ("n1",), "as was decided"


def test_a_run_that_has_to_end_is_evicted_once() -> None:
    found = workload(checks("Ready"), QuotaReserved=AT, Admitted=AT)
    for then, state in (
        (AfterStop.REQUEUE, CheckState.RETRY),
        (AfterStop.CANCEL, CheckState.REJECTED),
    ):
        record = granted(found, BEGUN, stop=StopRequest(then, "why", NOW_US))
        [effect] = written(reconcile(seen(found), record, MOMENT))
        assert (effect.state, effect.message) == (state, "Coplace: why")
        again = workload(checks(state), QuotaReserved=AT, Admitted=AT)
        assert written(reconcile(seen(again), record, MOMENT)) == []


def test_one_that_runs_too_long_timed_out() -> None:
    evicted = {
        "type": "Evicted",
        "status": "True",
        "reason": "DeactivatedDueToMaximumExecutionTimeExceeded",
        "message": "too long",
        "lastTransitionTime": AT,
    }
    found = workload({**checks("Pending"), "conditions": [evicted]})
    record = replace(granted(found, BEGUN), reservation="before")
    pods = (RunPod("p", "physics", ready_us=NOW_US, ended_us=NOW_US, is_over=True),)
    [kept] = written(reconcile(seen(found, pods=pods, over_us=1), record, MOMENT))
    assert kept.record.outcome == "timed out"


def test_without_a_check_of_its_own_a_rejected_one_is_deactivated() -> None:
    sent = CheckNames(dispatched={"multikueue": ["alpha"]})
    root = workload(checks("Pending", "multikueue"), QuotaReserved=AT)
    there = SeenWorkload(root, around=Surroundings(sent, CHECKS))
    user, effect = reconcile(there, recorded(root, outcome="rejected: too wide"), MOMENT)
    assert isinstance(user, NotifyOwner)
    assert isinstance(effect, Deactivate)


def test_a_grant_is_nominated_and_recalled() -> None:
    sent = CheckNames(dispatched={"multikueue": ["alpha"]})
    root = workload(checks("Pending", "multikueue"), QuotaReserved=AT)
    there = SeenWorkload(root, around=Surroundings(sent, CHECKS))
    record = granted(root)
    assert written(reconcile(there, record, MOMENT)) == [Nominate(root, ["alpha"])]
    more = {**checks("Pending", "multikueue"), "nominatedClusterNames": ["alpha"]}
    nominated = workload(more, QuotaReserved=AT)
    stopped = granted(nominated, stop=StopRequest(AfterStop.DECLINE, "as asked", NOW_US))
    again = replace(there, workload=nominated)
    assert written(reconcile(again, stopped, MOMENT)) == [Nominate(nominated, [])]
    assert written(reconcile(there, stopped, MOMENT)) == [NoteRecalled(root, 3)]
    noted = {**root.fields, "metadata": {**root.metadata, "annotations": {RECALLED: "3"}}}
    after = replace(there, workload=KueueWorkload("alpha", noted))
    [kept] = written(reconcile(after, stopped, MOMENT))
    assert kept.record.claim.declined == 3


def test_a_manager_that_asks_is_to_ask_anew_before_a_grant_is_declined() -> None:
    """A check that stays ready has no Workload wait for a grant, and it would never start."""
    gated = CheckNames(frozenset({"placement"}), {"multikueue": ["alpha"]})
    answers = [{"name": "placement", "state": "Ready"}, {"name": "multikueue", "state": "Pending"}]
    root = workload({"admissionChecks": answers}, QuotaReserved=AT)
    there = SeenWorkload(root, around=Surroundings(gated, CHECKS))
    stopped = granted(root, stop=StopRequest(AfterStop.DECLINE, "as asked", NOW_US))
    [anew] = written(reconcile(there, stopped, MOMENT))
    assert (anew.names, anew.state) == (["placement"], CheckState.PENDING)
    declined = recorded(root, claim=LIVE.declining(3, 1))
    assert written(reconcile(there, declined, MOMENT)) == [anew], "an earlier process left it so"
    answers[0]["state"] = "Pending"
    assert written(reconcile(there, stopped, MOMENT)) == [NoteRecalled(root, 3)]


def test_the_copy_of_a_grant_is_ready_with_what_its_pods_get() -> None:
    sent = CheckNames(dispatched={"multikueue": ["alpha"]})
    more = {**checks("Pending", "multikueue"), "nominatedClusterNames": ["alpha"]}
    root = KueueWorkload("manager", workload(more, QuotaReserved=AT).fields)
    copy = workload(checks("Pending"), QuotaReserved=AT)
    there = SeenWorkload(root, copy, around=Surroundings(sent, CHECKS))
    [effect] = written(reconcile(there, granted(root), MOMENT))
    assert (effect.workload, effect.state) == (copy, CheckState.READY)
    assert effect.updates[0]["labels"]["coplace.io/workload"] == root.id.uid


def test_a_stray_copy_goes_back_while_it_is_not_admitted() -> None:
    [effect] = stray(workload(checks("Pending"), QuotaReserved=AT), CHECKS)
    assert isinstance(effect, AnswerCheck)
    assert effect.state is CheckState.RETRY
    assert stray(workload(checks("Pending")), CHECKS) == ()
    assert stray(workload(checks("Pending"), QuotaReserved=AT, Admitted=AT), CHECKS) == ()


def test_words_are_said_again_only_where_they_changed() -> None:
    sent = CheckNames(dispatched={"multikueue": ["alpha"]})
    root = workload(checks("Pending", "multikueue"), QuotaReserved=AT)
    why = ExplainedWait("no nodes", 0)
    late = SeenWorkload(
        root, around=Surroundings(sent, CHECKS), asked_us=NOW_US - 6_000_000, explained=why
    )
    effects = reconcile(late, None, MOMENT)
    assert [type(each) for each in effects] == [PublishFact, NotifyOwner, KeepRecord]
    effects = reconcile(late, recorded(root, explained=why), MOMENT)
    assert [type(each) for each in effects] == [PublishFact, LookAgain]

"""An executor claims before it creates, says what becomes of a Job, and keeps none that nobody has
assigned."""

from typing import Any

import pytest

from services.kubernetes.model.assignments import JobAssignment, assignment_body, run_body
from services.kubernetes.model.jobs import JobKey, KubernetesJob
from services.kubernetes.model.names import FINALIZER, QUEUE_NAME
from services.kubernetes.model.run_pods import PodDisruption
from services.kubernetes.processor.effects import AdmitCopy, DeleteJob, EvictCopy, PatchJob
from services.kubernetes.processor.execute import (
    CreateRun,
    ExecutorEffect,
    SayOfAssignment,
    SeenAssignment,
    execute,
)
from shared.kubernetes.pods import RunPod
from shared.kueue.names import GRANTED_CHECK, QUEUE_LABEL
from shared.kueue.workloads import KueueWorkload
from tests.support.kubernetes_api import EPOCH, Object, merged, suspended_job
from tests.unit.shared.kubernetes.objects import NOW_US

KEY = JobKey("beta", "physics", "lu-00000009-1")
CLAIMED = {"claimed": True}
SUSPENDED = {"type": "Suspended", "status": "True"}
QUIET = {"spec": {"suspend": True}, "status": {"conditions": [SUSPENDED]}}
ASKED = {"spec": {"job": {"suspend": True}}}


def assignment(status: Object | None = None, patch: Object | None = None) -> JobAssignment:
    """One of beta, as the home cluster shows it."""
    manifest = suspended_job(KEY.name, suspend=False)
    manifest["metadata"] |= {"finalizers": [FINALIZER]}
    identity = {"uid": "00000004", "resourceVersion": "7", "creationTimestamp": EPOCH}
    fields = merged(assignment_body(KEY, manifest), {"metadata": {**identity, "namespace": "site"}})
    return JobAssignment("beta", merged({**fields, "status": status or {}}, patch or {}))


def run(patch: Object | None = None) -> KubernetesJob:
    """What runs for it."""
    identity = {"uid": "run", "resourceVersion": "3", "creationTimestamp": EPOCH}
    fields = merged(run_body(assignment()), {"metadata": identity})
    return KubernetesJob("beta", merged(fields, patch or {}))


def wanted(of: JobAssignment | None, job: KubernetesJob | None = None, **more: Any) -> Any:
    return execute(SeenAssignment(of, job, **more), NOW_US, follows_kueue=True)


def said(effect: ExecutorEffect) -> Any:
    assert isinstance(effect, SayOfAssignment)
    return effect.status


def test_it_claims_an_assignment_before_it_creates_its_job() -> None:
    [claims] = wanted(assignment())
    assert said(claims) == CLAIMED
    [creates] = wanted(assignment(CLAIMED))
    assert isinstance(creates, CreateRun)


def test_a_run_is_in_no_queue_there() -> None:
    assert QUEUE_NAME not in run().labels
    assert run().is_taken


@pytest.mark.parametrize("withdrawn", [ASKED, {"metadata": {"deletionTimestamp": EPOCH}}])
def test_what_was_taken_back_is_never_created(withdrawn: Object) -> None:
    assert not wanted(assignment(None, withdrawn))
    [refuses] = wanted(assignment(CLAIMED, withdrawn))
    assert said(refuses) == {"refused": "taken back before it ran"}
    assert not wanted(assignment({**CLAIMED, "refused": "taken back"}, withdrawn))


def test_it_reports_a_run_with_its_pods_once() -> None:
    job = run({"status": {"active": 1, "startTime": EPOCH}})
    pods = [RunPod("p", "physics", "n1", ready_us=NOW_US)]
    [reports] = wanted(assignment(CLAIMED), job, pods=pods)
    status = said(reports)
    assert (status["uid"], status["job"]["active"]) == ("run", 1)
    assert status["pods"][0]["readyUs"] == NOW_US
    assert not wanted(assignment({**CLAIMED, **status}), job, pods=pods)


def test_what_it_reported_of_pods_stays_when_nobody_sees_them_any_more() -> None:
    pods, disruption = [RunPod("p", "physics", ready_us=NOW_US)], PodDisruption("preempted")
    [reports] = wanted(assignment(CLAIMED), run(), pods=pods, disruption=disruption)
    assert not wanted(assignment({**CLAIMED, **said(reports)}), run())


def test_a_run_that_is_asked_to_end_is_suspended_then_deleted_then_reported_to_have_ended() -> None:
    of = assignment({**CLAIMED, "uid": "run"}, ASKED)
    *_, suspends = wanted(of, run())
    assert isinstance(suspends, PatchJob)
    assert suspends.body["spec"] == {"suspend": True}
    [deletes] = wanted(of, run(QUIET))
    assert isinstance(deletes, DeleteJob)
    [reports] = wanted(of, run(merged(QUIET, {"metadata": {"deletionTimestamp": EPOCH}})))
    assert (said(reports)["final"], said(reports)["deletedAt"]) == (True, None)


def test_a_run_that_somebody_suspends_is_reported_and_not_let_run_again() -> None:
    [reports] = wanted(assignment({**CLAIMED, "uid": "run"}), run(QUIET))
    assert said(reports)["suspended"]
    assert not said(reports)["final"]


def test_a_run_has_no_more_than_was_assigned() -> None:
    more = {"spec": {"parallelism": 9, "completions": None, "activeDeadlineSeconds": 9999}}
    *_, sets_back = wanted(assignment(CLAIMED), run(more))
    assert isinstance(sets_back, PatchJob)
    assert sets_back.body["spec"] == {"parallelism": 1, "activeDeadlineSeconds": 3600}


def test_a_run_that_is_not_there_any_more_is_not_created_again() -> None:
    of = assignment({**CLAIMED, "uid": "run"})
    [reports] = wanted(of)
    assert said(reports)["deletedAt"]
    assert not wanted(assignment({**CLAIMED, "uid": "run", "deletedAt": EPOCH}))
    [reports] = wanted(of, run({"metadata": {"uid": "another"}}))
    assert said(reports)["deletedAt"]


def test_a_run_that_nobody_has_assigned_ends_and_is_let_go() -> None:
    [deletes] = wanted(None, run())
    assert isinstance(deletes, DeleteJob)
    for over in ({"metadata": {"deletionTimestamp": EPOCH}}, {"status": ended()}):
        [lets_go] = wanted(None, run(over))
        assert isinstance(lets_go, PatchJob)
        assert lets_go.body["metadata"]["finalizers"] == []
    assert not wanted(None, run({"metadata": {"finalizers": []}}))


def ended() -> Object:
    return {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": EPOCH}]}


def test_what_was_released_runs_on_and_is_not_kept() -> None:
    *_, lets_go = wanted(assignment(CLAIMED, {"metadata": {"finalizers": []}}), run())
    assert isinstance(lets_go, PatchJob)
    assert lets_go.body["metadata"]["finalizers"] == []


def test_a_job_of_somebody_else_is_left_alone_and_its_name_is_refused() -> None:
    others = KubernetesJob("beta", merged(suspended_job(KEY.name), {"metadata": {"uid": "x"}}))
    assert not wanted(None, others)
    [refuses] = wanted(assignment(CLAIMED), others)
    assert said(refuses) == {"refused": "a Job of its name is there"}


def test_a_run_for_another_assignment_of_its_name_goes_first() -> None:
    [deletes] = wanted(assignment(None, {"metadata": {"uid": "another"}}), run())
    assert isinstance(deletes, DeleteJob)


QUEUED = {"metadata": {"labels": {QUEUE_LABEL: "main"}}}
WAITS = merged(QUEUED, {"spec": {"suspend": True}})
DELETED = {"metadata": {"deletionTimestamp": EPOCH}}


def queued(status: Object | None = None, patch: Object | None = None) -> JobAssignment:
    """One that the Kueue there lets run."""
    return assignment(status, merged(QUEUED, patch or {}))


def workload(state: str = "Pending", **conditions: str) -> KueueWorkload:
    """That of the run, with quota."""
    told = {"QuotaReserved": "True", **conditions}
    fields = {
        "metadata": {"name": "job-lu", "namespace": "physics", "uid": "w", "resourceVersion": "5"},
        "status": {
            "conditions": [{"type": name, "status": word} for name, word in told.items()],
            "admissionChecks": [{"name": GRANTED_CHECK, "state": state}],
        },
    }
    return KueueWorkload("beta", fields)


def test_a_job_that_kueue_lets_run_is_created_suspended_and_another_is_not() -> None:
    assert run_body(queued())["spec"]["suspend"]
    assert not run_body(assignment())["spec"]["suspend"]


def test_what_waits_in_kueue_is_let_run_once_that_has_quota_and_asks() -> None:
    of, job = queued(CLAIMED), run(WAITS)
    [admits] = wanted(of, job, workload=workload())
    assert isinstance(admits, AdmitCopy)
    for other in (None, workload("Ready"), workload(QuotaReserved="False")):
        assert not wanted(of, job, workload=other)


def test_what_waits_in_kueue_is_deleted_where_it_is_taken_back_and_never_ran() -> None:
    of = queued(CLAIMED, ASKED)
    for seen in (None, workload(), workload(QuotaReserved="False")):
        [deletes] = wanted(of, run(WAITS), workload=seen)
        assert isinstance(deletes, DeleteJob)
    [lets_go] = wanted(of, run(merged(WAITS, DELETED)))
    assert isinstance(lets_go, PatchJob)
    [refuses] = wanted(of)
    assert said(refuses) == {"refused": "taken back before it ran"}


def test_what_kueue_lets_run_just_now_is_not_said_never_to_have_run() -> None:
    [evicts] = wanted(
        queued(CLAIMED, ASKED), run(WAITS), workload=workload("Ready", Admitted="True")
    )
    assert isinstance(evicts, EvictCopy)
    *_, reports = wanted(
        queued(CLAIMED), run(merged(WAITS, DELETED)), workload=workload("Ready", Admitted="True")
    )
    assert said(reports)["uid"] == "run"


def test_what_ran_and_lost_its_quota_is_reported_and_not_let_run_again() -> None:
    evicted = workload(Admitted="False")
    [reports] = wanted(queued(CLAIMED), run(WAITS), workload=evicted)
    assert (said(reports)["uid"], said(reports)["suspended"]) == ("run", True)
    again = {**CLAIMED, **said(reports)}
    assert not wanted(queued(again), run(WAITS), workload=evicted)


def test_what_waits_in_kueue_and_is_deleted_there_never_starts() -> None:
    [refuses] = wanted(queued(CLAIMED), run(merged(WAITS, DELETED)), workload=workload())
    assert said(refuses) == {"refused": "its Job was deleted before it ran"}


def test_what_runs_by_kueue_and_has_to_end_is_taken_out_of_that_first() -> None:
    of, runs = queued({**CLAIMED, "uid": "run"}, ASKED), run(QUEUED)
    *_, evicts = wanted(of, runs, workload=workload("Ready", Admitted="True"))
    assert isinstance(evicts, EvictCopy)
    inactive = workload("Ready", Admitted="True")
    inactive = KueueWorkload("beta", merged(inactive.fields, {"spec": {"active": False}}))
    *_, suspends = wanted(of, runs, workload=inactive)
    assert isinstance(suspends, PatchJob)


def test_where_nobody_follows_kueue_an_assignment_for_it_is_refused() -> None:
    [refuses] = execute(SeenAssignment(queued()), NOW_US)
    assert "set kueue.enabled" in said(refuses)["refused"]

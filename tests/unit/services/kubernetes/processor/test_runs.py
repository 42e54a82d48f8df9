"""A run counts from its last pod's Ready to its last pod's end; one that is never ready waits again
and is charged nothing."""

from dataclasses import replace
from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JobFinished

from services.kubernetes.processor.effects import PatchRecord, PatchStatus
from services.kubernetes.processor.reconcile import reconcile
from services.kubernetes.processor.seen import SeenJob
from shared.kubernetes.claims import AfterStop, StopRequest
from shared.kubernetes.effects import LookAgain, PublishFact
from shared.kubernetes.pods import RunPod
from tests.unit.services.kubernetes.objects import LIVE, TERMS, job, recorded
from tests.unit.shared.kubernetes.objects import NOW_US

SECOND_US = 1_000_000
_COUNTED = replace(TERMS, ready_within_s=600.0)
_GRANTED = replace(LIVE, nodes=("n[1-2]",), at_us=NOW_US - 500 * SECOND_US)
_COMPLETE = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T20:40:00Z"}


def pod(ready_s: int = 0, ended_s: int = 0, waits_for: str = "") -> RunPod:
    """A pod that was ready, and ended, so many seconds before now."""
    return RunPod(
        f"{ready_s}-{ended_s}",
        "physics",
        ready_us=NOW_US - ready_s * SECOND_US if ready_s else 0,
        ended_us=NOW_US - ended_s * SECOND_US if ended_s else 0,
        is_over=bool(ended_s),
        waits_for=waits_for,
    )


def look(*pods: RunPod, now_us: int = NOW_US, **status: Any) -> list[Any]:
    """What is done about a Job of two pods that was let run 500 s before now."""
    metadata = {"finalizers": ["coplace.io/told"]}
    seen = job({"metadata": metadata, "spec": {"suspend": False}, "status": status}, pods=2)
    record = recorded(_GRANTED, pods=2)
    return list(reconcile(SeenJob(seen, seen, pods=pods), record, _COUNTED, now_us))


def ended(effects: list[Any]) -> JobFinished:
    [found] = [
        each.event.job_finished
        for each in effects
        if isinstance(each, PublishFact) and each.event.HasField("job_finished")
    ]
    return found


def test_a_run_counts_from_the_last_ready_to_the_last_end() -> None:
    found = ended(look(pod(400, 20), pod(300, 10), conditions=[_COMPLETE]))
    assert (found.started_at_us, found.ended_at_us) == (
        NOW_US - 300 * SECOND_US,
        NOW_US - 10 * SECOND_US,
    )


def test_a_run_of_which_nobody_saw_a_pod_counts_from_its_start() -> None:
    late = NOW_US + 60 * SECOND_US
    assert ended(look(conditions=[_COMPLETE], now_us=late)).started_at_us == _GRANTED.at_us


def test_the_end_of_the_last_pod_is_awaited_for_a_moment() -> None:
    over = {**_COMPLETE, "lastTransitionTime": "2026-01-01T20:39:58Z"}
    [_, later] = look(pod(400, 20), pod(300), conditions=[over])
    assert isinstance(later, LookAgain)
    assert 0 < later.after_s <= 5
    assert ended(look(pod(400, 20), pod(300, 10), conditions=[over])).started_at_us


def test_pods_that_are_not_ready_in_time_make_the_job_wait_again_with_the_reason() -> None:
    waiting = pod(waits_for="ImagePullBackOff: no such image")
    [*_, later] = look(pod(400), waiting, active=2, ready=1)
    assert later == LookAgain(100)
    effects = look(pod(400), waiting, active=2, ready=1, now_us=NOW_US + 100 * SECOND_US)
    [stopped] = [each for each in effects if isinstance(each, PatchRecord)]
    stop = StopRequest.of_fields(stopped.body["status"]["stop"])
    assert stop is not None
    assert (stop.then, stop.reason) == (
        AfterStop.REQUEUE,
        "not ready within 600 s: ImagePullBackOff: no such image",
    )


@pytest.mark.parametrize(
    ("pods", "ready", "succeeded"),
    [
        ((pod(400), pod(300)), 2, 0),
        ((), 2, 0),  # as the Job's own status has it
        ((pod(400, 20), pod(300)), 1, 1),
    ],
)
def test_pods_that_were_ready_may_run_for_long(pods: Any, ready: int, succeeded: int) -> None:
    late = NOW_US + 1_000 * SECOND_US
    found = look(*pods, now_us=late, ready=ready, succeeded=succeeded)
    assert not [each for each in found if isinstance(each, PatchRecord)]


def test_a_run_that_never_was_is_charged_nothing() -> None:
    stop = StopRequest(AfterStop.REQUEUE, "not ready within 600 s", NOW_US - SECOND_US)
    record = replace(recorded(_GRANTED, pods=2), stop=stop)
    quiet = {"type": "Suspended", "status": "True", "lastTransitionTime": "2026-01-01T20:39:59Z"}
    metadata = {"finalizers": ["coplace.io/told"]}
    seen = job({"metadata": metadata, "status": {"active": 0, "conditions": [quiet]}}, pods=2)
    waiting = pod()._replace(ended_us=NOW_US, is_over=True)
    effects = reconcile(SeenJob(seen, seen, pods=(waiting,)), record, _COUNTED, NOW_US)
    found = ended(list(effects))
    assert (found.started_at_us, found.grant, found.nodes) == (0, 1, 2)


def test_a_run_whose_pods_were_ended_counts_as_never_started_before_it_waits_again() -> None:
    stop = StopRequest(AfterStop.REQUEUE, "evicted", NOW_US - SECOND_US)
    record = replace(recorded(_GRANTED, pods=2), stop=stop)
    quiet = {"type": "Suspended", "status": "True", "lastTransitionTime": "2026-01-01T20:39:59Z"}
    status = {"conditions": [quiet], "startTime": "2026-01-01T20:30:00Z"}
    metadata = {"finalizers": ["coplace.io/told"]}

    def effects(terminating: int) -> list[Any]:
        told = {**status, "terminating": terminating}
        seen = job({"metadata": metadata, "status": told}, pods=2)
        return list(reconcile(SeenJob(seen, seen), record, _COUNTED, NOW_US))

    assert not [each for each in effects(1) if isinstance(each, PatchStatus)]
    [reset] = [each for each in effects(0) if isinstance(each, PatchStatus)]
    assert reset.body["status"] == {"startTime": None}

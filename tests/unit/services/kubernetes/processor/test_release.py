"""A Job is given back after its record says so, and what may have begun elsewhere is left alone."""

from dataclasses import replace
from typing import Any

import pytest

from services.kubernetes.model.names import FINALIZER, MANAGED_BY
from services.kubernetes.model.records import KubernetesRecord
from services.kubernetes.processor.effects import NotifyUser, PatchJob, PatchRecord, PatchStatus
from services.kubernetes.processor.reconcile import reconcile
from services.kubernetes.processor.release import released
from services.kubernetes.processor.seen import SeenJob
from shared.kubernetes.claims import AfterStop, StopRequest
from shared.kubernetes.effects import PublishFact
from tests.unit.services.kubernetes.objects import LIVE, TERMS, job, recorded
from tests.unit.shared.kubernetes.objects import NOW_US

_TAKEN = {"metadata": {"finalizers": [FINALIZER]}}
_CLAIMED = replace(LIVE, run_uid="")
_AWAY = replace(LIVE, run_uid="", cluster="beta")


def marked(record: KubernetesRecord) -> KubernetesRecord:
    """The record once it says that the Job is Kubernetes' to start."""
    return replace(record, released_at_us=NOW_US)


def effects(record: KubernetesRecord | None, **spec: Any) -> list[Any]:
    return list(released(SeenJob(job(_TAKEN, **spec)), record, "coplace", NOW_US))


def suspends(found: list[Any]) -> list[Any]:
    """What becomes of the suspension of a Job."""
    patches = [each for each in found if isinstance(each, PatchJob)]
    return [each.body["spec"]["suspend"] for each in patches if "spec" in each.body]


def test_the_record_says_it_before_the_job_is_changed() -> None:
    [mark] = effects(recorded())
    assert isinstance(mark, PatchRecord)
    assert mark.body["status"] == {"releasedAtUs": NOW_US}
    [given, said] = effects(marked(recorded()))
    assert suspends([given]) == [False]
    assert given.record is not None, "it is changed only while its record is as it was seen"
    assert isinstance(said, NotifyUser)


def test_a_start_at_home_that_has_not_begun_is_taken_back() -> None:
    assert suspends(effects(marked(recorded(_CLAIMED)))) == [False]


@pytest.mark.parametrize(
    "record",
    [
        marked(recorded(LIVE)),
        marked(recorded(_AWAY)),
        replace(marked(recorded(_CLAIMED)), is_managed=True),
        replace(marked(recorded(_CLAIMED)), stop=StopRequest(AfterStop.CANCEL, "", NOW_US)),
        recorded(LIVE, "completed"),
    ],
    ids=["it runs", "a copy elsewhere", "a copy at home", "it is cancelled", "it is over"],
)
def test_what_may_run_or_is_over_is_let_go_and_is_not_started(record: KubernetesRecord) -> None:
    [freed] = effects(record)
    assert suspends([freed]) == []
    assert freed.body["metadata"]["finalizers"] == []


def test_the_process_declines_what_was_taken_back_and_leaves_the_job_running() -> None:
    stop = StopRequest(AfterStop.DECLINE, "the Job was released to Kubernetes", NOW_US)
    record = replace(marked(recorded(_CLAIMED)), stop=stop)
    seen = job(
        {"spec": {"suspend": False}, "metadata": {"labels": {"coplace.io/queue-name": None}}}
    )
    found = list(reconcile(SeenJob(seen, seen), record, TERMS, NOW_US))
    assert True not in suspends(found)
    [fact] = [each.event for each in found if isinstance(each, PublishFact)]
    assert fact.job_declined.grant == LIVE.grant


def test_a_released_job_that_gets_the_label_again_is_let_be() -> None:
    record = replace(marked(recorded()), outcome="released: Kubernetes starts it by its own rules")
    seen = job({"spec": {"suspend": False}})
    assert not suspends(list(reconcile(SeenJob(seen), record, TERMS, NOW_US)))


def test_a_job_that_coplace_manages_is_not_let_run() -> None:
    record = replace(marked(recorded()), is_managed=True)
    found = effects(record, managedBy=MANAGED_BY)
    assert suspends(found) == []
    [status] = [each for each in found if isinstance(each, PatchStatus)]
    assert "Failed" in [each["type"] for each in status.body["status"]["conditions"]]

"""Conditions follow from what a record says, and keep the time since when they hold."""

from dataclasses import replace
from typing import Any

from services.kubernetes.model import records
from services.kubernetes.model.conditions import came_true, conditions_after, first_conditions
from services.kubernetes.model.records import KubernetesRecord
from shared.kubernetes.claims import GrantClaim
from tests.unit.services.kubernetes.objects import LIVE, job, recorded
from tests.unit.shared.kubernetes.objects import NOW_US

_LATER_US = NOW_US + 60_000_000


def true_of(record: KubernetesRecord) -> set[str]:
    return {name for name, each in record.conditions.items() if each.status == "True"}


def said(record: KubernetesRecord, body: Any, name: str) -> Any:
    """What a condition is once a patch was merged."""
    found = conditions_after(record, body["status"], NOW_US)
    return next(each for each in found if each["type"] == name)


def after(record: KubernetesRecord, body: Any, now_us: int = NOW_US) -> KubernetesRecord:
    """The record once a patch was merged, with its conditions."""
    status = {**body["status"]}
    status["conditions"] = conditions_after(record, status, now_us)
    return record.merged(status)


def words(before: KubernetesRecord, found: KubernetesRecord) -> list[str]:
    return [each.kind for each in came_true(before, found)]


def test_a_job_is_queued_granted_started_finished_and_charged() -> None:
    record = recorded()
    first = first_conditions(job(), record.submitted)
    assert [each["type"] for each in first if each["status"] == "True"] == ["Queued"]
    granted = after(record, records.claiming(record, replace(LIVE, run_uid="")))
    assert true_of(granted) == {"Granted"}
    assert words(record, granted) == ["Granted"]
    started = after(granted, records.answering(granted, LIVE), _LATER_US)
    assert true_of(started) == {"Granted", "Started"}
    assert words(granted, started) == ["Started"]
    assert said(started, records.closing(started, "timed out"), "Finished")["reason"] == "TimedOut"
    ended = after(started, records.closing(started, "timed out"))
    charged = after(ended, records.charging(ended, "run 1: 2 service units", "2"))
    assert true_of(charged) == {"Granted", "Started", "Finished", "Charged"}
    assert words(started, charged) == [], "each charge has an event of its own"


def test_a_condition_keeps_since_when_it_holds() -> None:
    record = recorded()
    granted = after(record, records.claiming(record, replace(LIVE, run_uid="")))
    started = after(granted, records.answering(granted, LIVE), _LATER_US)
    assert started.conditions["Granted"].since < started.conditions["Started"].since


def test_a_run_that_waits_again_is_queued_again() -> None:
    record = recorded(LIVE)
    body = records.claiming(record, LIVE.over())
    waits = after(record, body)
    assert true_of(waits) == {"Queued"}
    assert "for attempt 2" in said(record, body, "Queued")["message"]
    assert words(record, waits) == ["Queued"]


def test_a_released_job_is_not_queued_any_more() -> None:
    record = recorded()
    found = after(record, records.releasing(record, NOW_US))
    assert true_of(found) == set()


def test_where_the_logs_are_is_said_once_a_copy_runs() -> None:
    away = replace(LIVE, cluster="beta", run_uid="copy")
    record = recorded(GrantClaim())
    begun = said(record, records.answering(record, away), "Started")
    assert "logs are on beta: physics/lu-" in begun["message"]


def test_a_record_of_before_gets_its_conditions_with_its_next_change() -> None:
    record = recorded(LIVE)
    assert not record.conditions
    found = after(record, records.closing(record, "completed"))
    assert true_of(found) == {"Granted", "Started", "Finished"}

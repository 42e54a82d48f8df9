"""The record of a Workload survives, and what somebody else wrote there is refused."""

from dataclasses import replace
from typing import Any

import pytest

from coplace_client.errors import RejectedError
from services.kueue.model.records import (
    PastRun,
    QuotaHold,
    WorkloadRecord,
    name_of,
    parse_record,
    recording,
)
from shared.kubernetes.claims import AfterStop, StopRequest
from shared.kubernetes.explained_wait import ExplainedWait
from tests.support.kubernetes_api import merged
from tests.unit.services.kueue.objects import LIVE, NOW_US, recorded, workload


def stored(record: WorkloadRecord, version: str = "9") -> dict[str, Any]:
    """What the API server has once a record was created."""
    body = dict(recording(workload(), record))
    return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}


def test_it_is_read_as_it_was_written() -> None:
    found = recorded(
        claim=LIVE,
        reservation="r",
        hold=QuotaHold(True, NOW_US, "r", 3),
        explained=ExplainedWait("why", 7),
        past=PastRun(LIVE, "Preempted", 9),
        stop=StopRequest(AfterStop.REQUEUE, "why", NOW_US),
        outcome="completed",
    )
    versions: dict[str, Any] = {"version": "9", "workload_version": "7"}
    assert parse_record(stored(found)) == replace(found, **versions)
    assert parse_record(stored(recorded())) == replace(recorded(), **versions)


@pytest.mark.parametrize("spec", [None, 7, {}, {"submitted": {"nodes": "many"}}])
def test_one_that_cannot_be_read_is_refused(spec: Any) -> None:
    with pytest.raises(RejectedError, match=r"spec\.submitted"):
        parse_record({"spec": spec})


def test_a_forged_claim_is_refused() -> None:
    found = stored(recorded(claim=LIVE))
    found["status"]["claim"]["grant"] = "x"
    with pytest.raises(RejectedError, match="claim"):
        parse_record(found)


def test_it_says_whose_it_is() -> None:
    assert name_of(stored(recorded())) == ("00000001-alpha", "physics", "job-lu-1a2b")
    for odd in ({}, {"metadata": {"name": "u"}}, {"spec": {"workload": 7}}):
        with pytest.raises(RejectedError):
            name_of(odd)


def test_what_it_lacks_is_removed_where_it_was() -> None:
    found = stored(recorded(stop=StopRequest(AfterStop.REQUEUE, "why", NOW_US)))
    body = recording(workload(), replace(parse_record(found), stop=None))
    assert body["metadata"] == {"resourceVersion": "9"}
    assert parse_record(merged(found, body)).stop is None


def test_a_newer_word_on_a_hold_is_newer_whatever_the_clock_says() -> None:
    held = recorded().held("r", 100)
    released = held.released("s", 50)
    assert (released.hold.is_held, released.hold.at_us) == (False, 101)
    assert released.released("s", 200) == released
    assert replace(held).held("s", 10).hold.at_us == 101

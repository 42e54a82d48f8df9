"""The record of a Workload survives, and what somebody else wrote there is refused."""

from dataclasses import replace

import pytest

from coplace_client.errors import RejectedError
from services.kueue.model.explained_wait import ExplainedWait
from services.kueue.model.names import FINALIZER, RECORD
from services.kueue.model.records import PastRun, QuotaHold, parse_record, recording
from services.kueue.model.workloads import KueueWorkload
from shared.kubernetes.claims import AfterStop, StopRequest
from tests.unit.services.kueue.objects import LIVE, NOW_US, recorded, workload


def with_annotation(text: str) -> KueueWorkload:
    found = workload()
    metadata = {**found.metadata, "annotations": {RECORD: text}}
    return KueueWorkload("alpha", {**found.fields, "metadata": metadata})


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
    assert parse_record(with_annotation(found.to_json())) == found
    assert parse_record(with_annotation(recorded().to_json())) == recorded()
    assert parse_record(workload()) is None


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"submitted":{"nodes":"many"}}', "7", "null"])
def test_one_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(RejectedError, match=r"coplace\.io/claim"):
        parse_record(with_annotation(text))


def test_a_forged_claim_is_refused() -> None:
    text = recorded(claim=LIVE).to_json().replace('"grant":3', '"grant":"x"')
    with pytest.raises(RejectedError, match="claim"):
        parse_record(with_annotation(text))


def test_the_finalizer_stays_until_the_end() -> None:
    first = recording(workload(), recorded())["metadata"]
    assert first["finalizers"] == [FINALIZER]
    assert (first["uid"], first["resourceVersion"]) == ("00000001-alpha", "7")
    found = workload()
    kept = KueueWorkload(
        "alpha", {**found.fields, "metadata": {**found.metadata, "finalizers": ["a", FINALIZER]}}
    )
    assert "finalizers" not in recording(kept, recorded())["metadata"]
    assert recording(kept, recorded(outcome="completed"))["metadata"]["finalizers"] == ["a"]


def test_a_newer_word_on_a_hold_is_newer_whatever_the_clock_says() -> None:
    held = recorded().held("r", 100)
    released = held.released("s", 50)
    assert (released.hold.is_held, released.hold.at_us) == (False, 101)
    assert released.released("s", 200) == released
    assert replace(held).held("s", 10).hold.at_us == 101

"""One Workload that fails holds up no other, and nothing is taken to be deleted unasked."""

import asyncio

import pytest
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from services.kueue.adapters import reconciler
from services.kueue.model.states import WorkloadState
from shared.kubernetes.api import ApiRefusedError
from tests.support.kueue_api import CHECK
from tests.unit.services.kueue.play import Play


async def test_one_that_is_refused_is_set_aside_and_others_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = Play()
    bad, good = play.home.submit("bad"), play.home.submit("good")
    create = play.home.create_record

    async def refused(body):  # type: ignore[no-untyped-def]
        if body["spec"]["workload"]["name"] == bad.name:
            raise ApiRefusedError("a webhook denies it")
        return await create(body)

    monkeypatch.setattr(play.home, "create_record", refused)
    for _ in range(4):
        await play.second()
    assert play.home.condition(good, "Admitted")
    play.home.evict(bad, "Preempted")
    await play.second()
    assert ("alpha", WorkloadState.ASIDE) in list(play.adapter.states())


async def test_a_record_that_cannot_be_read_stops_its_workload_alone() -> None:
    play = Play()
    bad, good = play.home.submit("bad"), play.home.submit("good")
    body = play.home.workloads[bad]
    of = {"workload": {"namespace": bad.namespace, "name": bad.name}}
    record = {"metadata": {"name": body["metadata"]["uid"]}, "spec": of}
    await play.home.create_record(record)
    for _ in range(4):
        await play.second()
    assert play.home.condition(good, "Admitted")
    assert not play.home.condition(bad, "Admitted")
    assert ("alpha", WorkloadState.ASIDE) in list(play.adapter.states())


async def test_a_start_of_a_workload_that_was_not_seen_yet_is_claimed() -> None:
    play = Play()
    key = play.home.submit("lu")
    play.kueue()
    await play.look()
    play.region.advance(2)
    [decision] = play.decisions()
    assert decision.verdict == VERDICT_START
    play.began()
    play.adapter.mirror.remove(play.adapter.mirror.workloads()[0].id)
    await play.adapter.obey([decision])
    assert play.home.workloads[key]["metadata"]["uid"] in play.home.records


async def test_a_start_of_what_is_not_there_cancels_its_job() -> None:
    play = Play()
    job_id = "north/alpha/physics/gone/00000009/1767225600"
    decision = PlacementDecided(job_id=job_id, verdict=VERDICT_START, grant=1, attempt=1)
    await play.adapter.obey([decision])
    kinds = {event.WhichOneof("payload") for event in play.facts.values()}
    assert kinds == {"job_declined", "job_cancelled"}


async def test_checks_are_said_to_be_active_once_they_are_there() -> None:
    play = Play()
    await play.adapter.activate("alpha")
    assert {"activated": CHECK} in play.home.told
    objects = dict(play.home.check_objects())
    active = {"conditions": [{"type": "Active", "status": "True"}]}
    objects[CHECK]["status"] = active
    play.adapter.note_checks("alpha", objects)
    play.home.told.clear()
    await play.adapter.activate("alpha")
    assert play.home.told == []


async def test_what_has_no_identity_is_counted_and_left_out() -> None:
    play, odd = Play(), list[str]()
    play.adapter._odd = odd.append
    play.adapter.changed("alpha", {"metadata": {"name": "x"}})
    play.adapter.replace("alpha", [{}])
    play.adapter.replace_records("alpha", [{}])
    play.adapter.see_record("alpha", {}, is_removed=True)
    assert odd == ["alpha"] * 4


async def test_an_api_server_that_is_cut_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "_RETRY_S", 0)
    play = Play()
    key = play.home.submit("lu")
    play.fate.strikes = {2: "cut before", 4: "cut after", 6: "cut before"}
    for _ in range(6):
        await play.second()
        await asyncio.sleep(0)
    assert play.home.condition(key, "Admitted")


async def test_its_user_reads_what_a_run_cost_while_it_is_there() -> None:
    play = Play()
    key = play.home.submit("lu", pods=2)
    for _ in range(5):
        await play.second()
    play.home.finish(key)
    for _ in range(8):
        await play.second()
    play.region.advance(200)
    [charge] = play.region.charges()
    await play.adapter.note_charge(charge)
    await play.adapter.work_off()
    [told] = [each for each in play.home.told if each.get("reason") == "Charged"]
    assert f"{charge.price_su} service units" in told["message"]
    assert told["involvedObject"]["name"] == key.name
    play.home.remove(key)
    await play.look()
    await play.adapter.note_charge(charge)
    assert len([each for each in play.home.told if each.get("reason") == "Charged"]) == 1

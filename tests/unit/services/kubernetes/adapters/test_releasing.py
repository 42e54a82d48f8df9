"""Jobs go back to Kubernetes: each runs once, and Coplace knows of it."""

from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED, JobFinished

from services.kubernetes.adapters.releasing import JobsReleased, release
from services.kubernetes.model.jobs import JobKey
from services.kubernetes.model.names import FINALIZER, MANAGED_BY, QUEUE_NAME
from shared.kubernetes.names import GRANT, JOB_ID
from tests.support.kubernetes_api import MemoryApiServer, suspended_job
from tests.unit.services.kubernetes.objects import TERMS
from tests.unit.services.kubernetes.test_adversary import Play
from tests.unit.shared.kubernetes.objects import NOW_US

_CHOSEN = {
    "nodeSelector": {"zone": "a"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]},
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
        }
    },
}


async def settled(**jobs: Any) -> tuple[Play, dict[str, JobKey]]:
    """Jobs of alpha that Coplace knows."""
    play = Play(lambda _strategy: True)
    keys = {}
    for name, spec in jobs.items():
        body = suspended_job(name)
        body["spec"] |= spec.get("spec", {})
        body["spec"]["template"]["spec"] |= spec.get("pod", {})
        keys[name] = play.servers["alpha"].submit(body)
    await play.settle()
    return play, keys


async def released(play: Play, job_id: str = "") -> JobsReleased:
    return await release(play.servers, TERMS, job_id, now_us=lambda: NOW_US)


def id_at(play: Play, key: JobKey) -> str:
    return str(play.servers["alpha"].objects[key]["metadata"]["annotations"][JOB_ID])


def ends(play: Play, job_id: str) -> list[JobFinished]:
    told = [each.job_finished for each in play.coplace.facts.values()]
    return [each for each in told if each.job_id == job_id]


def grants(server: MemoryApiServer, key: JobKey) -> Any:
    return server.objects[key]["spec"]["template"]["metadata"]["labels"].get(GRANT)


async def test_what_waits_runs_by_kubernetes_rules_and_is_cancelled_to_coplace_uncharged() -> None:
    play, keys = await settled(lu={}, mg={})
    server, lu = play.servers["alpha"], keys["lu"]
    job_id = id_at(play, lu)
    assert (await released(play)).released == 2
    assert server.runs(lu)
    assert QUEUE_NAME not in server.objects[lu]["metadata"]["labels"]
    assert FINALIZER not in server.objects[lu]["metadata"]["finalizers"]
    assert [each["reason"] for each in server.told].count("Released") == 2
    play.coplace.start(job_id, "alpha", 0)
    await play.settle()
    [declined] = [each for each in play.coplace.facts.values() if each.HasField("job_declined")]
    assert declined.job_declined.job_id == job_id
    [end] = ends(play, job_id)
    assert (end.outcome, end.started_at_us, end.grant) == (JOB_OUTCOME_CANCELLED, 0, 0)
    assert server.runs(lu), "and Coplace leaves it alone"
    server.finish(lu)
    server.remove(lu)
    await play.settle()
    assert len(ends(play, job_id)) == 1
    assert (await released(play)) == JobsReleased(0, [], [], [])


async def test_what_runs_stays_and_is_charged_while_the_process_runs() -> None:
    play, keys = await settled(lu={})
    server, lu = play.servers["alpha"], keys["lu"]
    job_id = id_at(play, lu)
    play.coplace.start(job_id, "alpha", 0)
    await play.settle()
    assert await released(play) == JobsReleased(0, [job_id], [], [])
    await play.settle()
    assert grants(server, lu) == "1"
    assert FINALIZER not in server.objects[lu]["metadata"]["finalizers"]
    server.finish(lu)
    await play.settle()
    [end] = ends(play, job_id)
    assert (end.grant, end.cluster) == (1, "alpha")


async def test_a_run_that_nobody_saw_end_is_charged_for_its_limit_at_most() -> None:
    play, keys = await settled(lu={})
    server, lu = play.servers["alpha"], keys["lu"]
    job_id = id_at(play, lu)
    play.coplace.start(job_id, "alpha", 0)
    await play.settle()
    await released(play)
    server.remove(lu)
    play.now_us += 10_000_000_000
    await play.settle()
    [end] = ends(play, job_id)
    assert end.ended_at_us == end.started_at_us + 600_000_000


async def test_a_job_that_waits_again_chooses_its_nodes_as_its_user_wrote() -> None:
    play, keys = await settled(lu={"pod": _CHOSEN, "spec": {"activeDeadlineSeconds": 900}})
    server, lu = play.servers["alpha"], keys["lu"]
    play.coplace.start(id_at(play, lu), "alpha", 0)
    await play.settle()
    assert "nodeSelector" not in server.objects[lu]["spec"]["template"]["spec"]
    server.edit(lu, {"spec": {"suspend": True}})
    await play.settle()
    assert (await released(play)).released == 1
    spec = server.objects[lu]["spec"]
    pod = spec["template"]["spec"]
    assert server.runs(lu)
    assert {name: pod[name] for name in _CHOSEN} == _CHOSEN
    assert (grants(server, lu), spec["activeDeadlineSeconds"]) == (None, 900)


async def test_a_job_that_somebody_lets_run_keeps_nothing_of_an_earlier_grant() -> None:
    """Its pods count as those of others, and are where its user wrote."""
    play, keys = await settled(lu={"pod": _CHOSEN})
    server, lu = play.servers["alpha"], keys["lu"]
    job_id = id_at(play, lu)
    play.coplace.start(job_id, "alpha", 0)
    await play.settle()
    server.edit(lu, {"spec": {"suspend": True}})
    await play.settle()
    server.edit(lu, {"spec": {"suspend": False}})
    server.control(lu)
    assert (await released(play)).left == [job_id]
    server.control(lu)
    assert (await released(play)).released == 1
    assert server.runs(lu)
    assert grants(server, lu) is None
    pod = server.objects[lu]["spec"]["template"]["spec"]
    assert {name: pod[name] for name in _CHOSEN} == _CHOSEN
    await play.settle()
    by_hand = [each for each in play.coplace.ended if "-by-hand/" in each]
    assert len(by_hand) == 1
    assert len(ends(play, job_id)) == 2


async def test_a_job_that_coplace_manages_fails_and_says_why() -> None:
    play, keys = await settled(lu={"spec": {"managedBy": MANAGED_BY}})
    server, lu = play.servers["alpha"], keys["lu"]
    assert (await released(play)).released == 1
    conditions = server.objects[lu]["status"]["conditions"]
    [failed] = [each for each in conditions if each["type"] == "Failed"]
    assert "without Coplace nobody runs it" in failed["message"]
    await play.settle()
    [end] = play.coplace.ended.values()
    assert end == 1


async def test_one_job_is_released_and_others_wait_on() -> None:
    play, keys = await settled(lu={}, mg={})
    assert (await released(play, id_at(play, keys["lu"]))).released == 1
    assert play.servers["alpha"].runs(keys["lu"])
    await play.settle()
    assert not play.servers["alpha"].runs(keys["mg"])
    assert await released(play, "north/alpha/physics/no/1/2") == JobsReleased(0, [], [], [])


@pytest.mark.parametrize("spec", [{}, {"managedBy": MANAGED_BY}])
async def test_jobs_that_coplace_never_saw_go_back_too(spec: Any) -> None:
    play = Play(lambda _strategy: True)
    server = play.servers["alpha"]
    key = server.submit(suspended_job("lu", **spec))
    assert (await released(play)).released == 1
    assert server.runs(key) != bool(spec)
    assert server.has_ended(key) == bool(spec)
    await play.settle()
    assert not play.coplace.facts


async def test_what_coplace_does_not_know_yet_is_said() -> None:
    play, keys = await settled(lu={})
    job_id = id_at(play, keys["lu"])
    assert (await released(play)).unreported == [job_id]
    await play.settle()
    assert not (await released(play)).unreported


async def test_it_looks_again_while_a_job_is_not_given_back() -> None:
    play, keys = await settled(lu={})
    server = play.servers["alpha"]
    server.edit(keys["lu"], {"status": {"startTime": "2026-01-01T00:00:00Z", "terminating": 1}})
    found = await release(play.servers, TERMS, wait_s=0.05, looks_every_s=0.01)
    assert found.left, "pods of before are still being ended"
    server.control(keys["lu"])
    assert (await released(play)).released == 1

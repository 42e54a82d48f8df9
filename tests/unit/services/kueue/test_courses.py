"""Workloads start as decided, wait in Kueue's order and are charged for what ran."""

import pytest
from coplace.v1.jobs_pb2 import JobCancelled, JobRequeueAsked

from shared.kubernetes.api import ApiRefusedError
from shared.kubernetes.names import FREQUENCY_GHZ
from shared.kueue.names import WORKLOAD
from shared.kueue.workloads import WorkloadKey
from tests.support.kueue_api import CHECK, NAMESPACE, MemoryKueue
from tests.unit.services.kueue.play import CORES, NODES, Play

WORKERS = ("alpha", "beta")


def state(server: MemoryKueue, key: WorkloadKey) -> str:
    """The state of the check of a Workload."""
    checks = server.workloads[key]["status"].get("admissionChecks", ())
    return str(next((each["state"] for each in checks if each["name"] == CHECK), ""))


async def seconds(play: Play, count: int) -> None:
    for _ in range(count):
        await play.second()


async def ended(play: Play) -> None:
    """All that is left ends, and is charged."""
    await seconds(play, 10)
    play.region.advance(200)
    play.check_charges()
    assert play.region.dead_letters() == []
    for server in play.servers.values():
        for key, body in server.workloads.items():
            is_kept = body["metadata"]["uid"] in server.records
            assert not (server.is_over(key) and is_kept), body
        there = {body["metadata"]["uid"] for body in server.workloads.values()}
        assert server.records.keys() <= there


async def test_a_workload_starts_runs_and_is_charged() -> None:
    play = Play()
    key = play.home.submit("lu", pods=2)
    await seconds(play, 4)
    assert play.home.condition(key, "Admitted")
    first, second = play.home.pods_of(key)
    assert first["metadata"]["labels"] == second["metadata"]["labels"]
    assert first["metadata"]["labels"][WORKLOAD] == play.home.workloads[key]["metadata"]["uid"]
    [check] = play.home.workloads[key]["status"]["admissionChecks"]
    assert check["podSetUpdates"][0]["annotations"][FREQUENCY_GHZ] in ("1.2", "3.1")
    await seconds(play, 20)
    play.home.finish(key)
    await ended(play)
    [charge] = play.region.charges()
    assert charge.runtime_s > 20
    assert (charge.user, charge.account) == (NAMESPACE, f"{NAMESPACE}/main")


async def away_while_it_ends(play: Play, key: WorkloadKey) -> None:
    """The process is away while all pods end, MultiKueue hears of it late and removes the copy."""
    [worker] = [each for each in play.workers.values() if each.pods]
    worker.finish(key._replace(server=worker.server))
    play.region.advance(30)
    play.kueue()
    play.kueue()
    worker.pods.clear()
    worker.log.clear()
    play.began()


@pytest.mark.parametrize(("kind", "late_s"), [("Pod", 0), ("Job", 30)])
async def test_an_end_that_nobody_saw_is_read_in_the_pods_that_a_user_created(
    kind: str, late_s: float
) -> None:
    play = Play(WORKERS, "manager")
    key = play.home.submit("lu", pods=2, kind=kind)
    await seconds(play, 20)
    await away_while_it_ends(play, key)
    [run] = [each for worker in play.workers.values() for each in worker.runs.values()]
    play.slack_s = late_s
    await ended(play)
    [charge] = play.region.charges()
    assert charge.runtime_s == (run.ended_us - run.began_us) / 1e6 + late_s


async def test_pods_of_a_user_that_have_not_ended_or_are_refused_hold_no_charge_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = Play(WORKERS, "manager")
    refused, running = (play.home.submit(name, kind="Pod") for name in ("refused", "running"))
    await seconds(play, 20)

    async def group_pods(key: WorkloadKey) -> list[dict[str, object]]:
        if key == refused:
            raise ApiRefusedError("pods is forbidden")
        return [{"status": {"phase": "Running"}}]

    monkeypatch.setattr(play.home, "group_pods", group_pods)
    for worker in play.workers.values():
        for at in list(worker.workloads):
            worker.finish(at)
    play.region.advance(30)
    play.kueue()
    play.kueue()
    for worker in play.workers.values():
        worker.pods.clear()
        worker.log.clear()
    play.began()
    play.slack_s = 30
    await ended(play)
    assert len(play.region.charges()) == len((refused, running))


async def test_what_cannot_start_gives_its_quota_back_and_starts_later() -> None:
    """Kueue's quota is twice what the nodes have."""
    play = Play()
    first = play.home.submit("first", pods=NODES, cpu=CORES)
    await seconds(play, 3)
    second = play.home.submit("second", pods=NODES, cpu=CORES)
    pending_s, retries = 0, 0
    for _ in range(30):
        await play.second()
        waits = (
            play.home.condition(second, "QuotaReserved") and state(play.home, second) == "Pending"
        )
        pending_s = pending_s + 1 if waits else 0
        retries += state(play.home, second) == "Retry"
        assert pending_s <= 10
    assert retries
    assert not play.home.condition(second, "Admitted")
    play.home.finish(first)
    await seconds(play, 70)
    assert play.home.condition(second, "Admitted")
    play.home.finish(second)
    await ended(play)
    assert len(play.region.charges()) == 2


async def test_pods_of_a_quarter_of_a_core_fill_nodes_and_are_charged_a_quarter_each() -> None:
    play = Play()
    most = play.home.submit("most", pods=4 * NODES * CORES, cpu="250m")
    await seconds(play, 10)
    few = play.home.submit("few", pods=3, cpu="250m")
    await seconds(play, 10)
    assert play.home.condition(most, "Admitted")
    assert not play.home.condition(few, "Admitted")
    play.home.finish(most)
    await seconds(play, 70)
    assert play.home.condition(few, "Admitted")
    play.home.finish(few)
    await ended(play)
    held = sorted((each.cores, each.millicores) for each in play.region.charges())
    assert held == [(1, 750), (NODES * CORES, 0)]


async def test_why_it_waits_is_the_message_of_its_check() -> None:
    play = Play()
    play.home.submit("first", pods=NODES, cpu=CORES)
    await seconds(play, 3)
    key, told = play.home.submit("second", pods=NODES, cpu=CORES), list[dict[str, object]]()
    for _ in range(10):
        await play.second()
        told += [
            dict(each)
            for _, kind, body in play.home.log
            if kind == "changed" and body["metadata"]["name"] == key.name
            for each in body["status"].get("admissionChecks", ())
            if each["state"] == "Retry"
        ]
    assert "expected to start at 2026-01-01T00:" in str(told[0]["message"])
    assert 5 <= int(str(told[0]["requeueAfterSeconds"])) <= 60


@pytest.mark.parametrize("reason", ["Preempted", "PodsReadyTimeout", "ClusterQueueStopped"])
async def test_an_eviction_is_a_requeue_and_what_ran_is_charged(reason: str) -> None:
    play = Play()
    key = play.home.submit("lu", pods=2)
    await seconds(play, 10)
    play.home.evict(key, reason, "another one goes first")
    await seconds(play, 15)
    assert play.home.condition(key, "Admitted")
    play.home.finish(key)
    await ended(play)
    assert sorted(each.attempt for each in play.region.charges()) == [1, 2]
    [requeued] = [e.job_requeued for e in play.facts.values() if e.HasField("job_requeued")]
    assert requeued.reason == f"{reason}: another one goes first"


async def test_an_eviction_before_any_pod_was_ready_gives_the_grant_back() -> None:
    play = Play()
    key = play.home.submit("lu", pods=2)
    for _ in range(4):
        await play.second(readies=False)
    assert play.home.condition(key, "Admitted")
    play.home.evict(key, "PodsReadyTimeout", "pods were not ready")
    await seconds(play, 15)
    play.home.finish(key)
    await ended(play)
    assert [each.attempt for each in play.region.charges()] == [1]
    [declined] = [e.job_declined for e in play.facts.values() if e.HasField("job_declined")]
    assert declined.reason == "PodsReadyTimeout: pods were not ready"


async def test_a_workload_that_fits_nowhere_is_rejected_with_the_reason() -> None:
    play = Play()
    key = play.home.submit("wide", pods=1, cpu=CORES + 1)
    await seconds(play, 6)
    assert play.home.workloads[key]["spec"]["active"] is False
    messages = [
        each["message"]
        for _, kind, body in play.home.log
        if kind == "changed"
        for each in body["status"].get("admissionChecks", ())
        if each["state"] == "Rejected"
    ]
    assert "rejected: " in messages[0]


@pytest.mark.parametrize("after_s", [0, 10])
async def test_a_cancelled_workload_is_deactivated(after_s: int) -> None:
    play = Play()
    play.home.submit("first", pods=NODES, cpu=CORES)
    key = play.home.submit("lu", pods=1) if after_s else play.home.submit("lu", pods=2, cpu=CORES)
    if after_s:
        play.home.remove(WorkloadKey("alpha", NAMESPACE, "first"))
    await seconds(play, after_s or 2)
    [job_id] = [e.job_submitted.job_id for e in play.facts.values() if "/lu/" in e.id][:1]
    play.region.send(JobCancelled(job_id=job_id, cancelled_at_us=play.region.now_us))
    await seconds(play, 70)
    assert play.home.workloads[key]["spec"]["active"] is False
    play.home.finish(WorkloadKey("alpha", NAMESPACE, "first"))
    await ended(play)


async def test_who_asks_for_a_requeue_gets_it() -> None:
    play = Play()
    key = play.home.submit("lu")
    await seconds(play, 5)
    [job_id] = {e.job_submitted.job_id for e in play.facts.values()} - {""}
    asked = JobRequeueAsked(job_id=job_id, attempt=1, reason="why", asked_at_us=play.region.now_us)
    play.region.send(asked)
    await seconds(play, 20)
    assert play.home.condition(key, "Admitted")
    play.home.finish(key)
    await ended(play)
    assert sorted(each.attempt for each in play.region.charges()) == [1, 2]


@pytest.mark.parametrize("after_s", [0, 1, 2, 3, 10])
async def test_a_deleted_workload_is_reported(after_s: int) -> None:
    play = Play()
    key = play.home.submit("lu", pods=2)
    await seconds(play, after_s)
    play.home.remove(key)
    await seconds(play, 10)
    assert play.home.workloads == {}
    await ended(play)
    other = play.home.submit("next", pods=NODES, cpu=CORES)
    await seconds(play, 5)
    assert play.home.condition(other, "Admitted"), "its nodes are free again"


async def test_one_that_runs_since_before_the_check_is_left_alone() -> None:
    play = Play()
    play.home.checks = ()
    key = play.home.submit("lu")
    play.kueue()
    play.kueue()
    assert play.home.condition(key, "Admitted")
    play.home.checks = (CHECK,)
    body = play.home.workloads[key]
    body["status"]["admissionChecks"] = [play.home.pending(CHECK)]
    play.home.on_write = lambda: None
    play.home.change(key, {"metadata": {"labels": {"any": "other"}}})
    await seconds(play, 15)
    assert state(play.home, key) == "Ready"
    assert play.home.condition(key, "Admitted")
    assert play.facts == {}


@pytest.mark.parametrize("gated", [False, True])
async def test_multikueue_sends_it_where_it_was_decided(gated: bool) -> None:
    play = Play(WORKERS, "manager", gated=gated)
    keys = [play.home.submit(f"lu-{number}", pods=NODES, cpu=CORES) for number in range(2)]
    await seconds(play, 8)
    where = {str(play.home.workloads[key]["status"].get("clusterName")) for key in keys}
    assert where == set(WORKERS)
    third = play.home.submit("third", pods=NODES, cpu=CORES)
    await seconds(play, 10)
    assert not play.home.workloads[third]["status"].get("nominatedClusterNames")
    for name in WORKERS:
        for key in list(play.workers[name].workloads):
            play.workers[name].finish(key)
    await seconds(play, 70)
    assert play.home.workloads[third]["status"].get("clusterName") in WORKERS
    for name in WORKERS:
        for key in list(play.workers[name].workloads):
            play.workers[name].finish(key)
    await ended(play)
    assert len(play.region.charges()) == 3


async def test_an_eviction_on_a_worker_is_a_new_choice() -> None:
    play = Play(WORKERS, "manager")
    key = play.home.submit("lu", pods=1)
    await seconds(play, 8)
    first = str(play.home.workloads[key]["status"]["clusterName"])
    play.workers[first].evict(key._replace(server=first), "Preempted", "on the worker")
    await seconds(play, 20)
    again = str(play.home.workloads[key]["status"]["clusterName"])
    play.workers[again].finish(key._replace(server=again))
    await ended(play)
    assert sorted(each.attempt for each in play.region.charges()) == [1, 2]


async def test_who_waits_for_a_cluster_reads_why_once() -> None:
    play = Play(WORKERS, "manager")
    for number in range(2):
        play.home.submit(f"lu-{number}", pods=NODES, cpu=CORES)
    await seconds(play, 5)
    play.home.submit("third", pods=NODES, cpu=CORES)
    await seconds(play, 40)
    events = [each for each in play.home.told if each.get("reason") == "Waiting"]
    assert len(events) == 1
    assert "Coplace: " in events[0]["message"]


async def test_a_copy_that_was_granted_nowhere_goes_back() -> None:
    play = Play(WORKERS, "manager")
    spec: dict[str, object] = {"queueName": "main"}
    template = {"metadata": {}, "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}}
    spec["podSets"] = [{"name": "main", "count": 1, "template": template}]
    labels = {"kueue.x-k8s.io/multikueue-origin": "elsewhere"}
    key = play.workers["alpha"].create("stray", spec, labels=labels)
    pending_s = 0
    for _ in range(12):
        await play.second()
        pending_s += state(play.workers["alpha"], key) == "Pending"
        if state(play.workers["alpha"], key) == "Retry":
            break
    assert state(play.workers["alpha"], key) == "Retry"
    assert pending_s <= 10

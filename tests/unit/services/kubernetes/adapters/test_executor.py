"""A Job of the home cluster runs where an executor is, and its end is known at home."""

from contextlib import suppress
from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED
from coplace.v1.placement_pb2 import VERDICT_WITHDRAWN

from services.kubernetes.adapters import reconciler
from services.kubernetes.adapters.executor import AssignmentWatcher, JobExecutor
from services.kubernetes.adapters.pods import PodWatcher
from services.kubernetes.adapters.reconciler import JobReconciler
from services.kubernetes.adapters.releasing import release
from services.kubernetes.model.assignments import JobAssignment
from services.kubernetes.model.jobs import JobKey
from services.kubernetes.model.names import EXECUTOR, OUTCOME
from shared.kubernetes.api import ApiConflictError, ApiUnavailableError
from tests.support.assignments import MemoryAssignments
from tests.support.kubernetes_api import EPOCH, Object, merged, suspended_job
from tests.unit.services.kubernetes.adapters.test_reconciler import Region, decided, managed_job
from tests.unit.services.kubernetes.objects import TERMS
from tests.unit.shared.kubernetes.objects import NOW_US

_SECOND_US = 1_000_000


class ExecutorRegion(Region):
    """Beta is reached by its executor alone."""

    def __init__(self) -> None:
        self.assigned = MemoryAssignments("beta")
        super().__init__()
        self.executor = self.another_executor()

    def another(self) -> JobReconciler:
        apis: Any = {"alpha": self.alpha, "beta": self.assigned}
        return JobReconciler(apis, self.facts, TERMS, lambda: NOW_US)

    def another_executor(self) -> JobExecutor:
        """A process that has seen nothing yet."""
        return JobExecutor("beta", self.assigned, self.beta, lambda: NOW_US)

    async def settle(self, *, executes: bool = True) -> None:
        for _ in range(8):
            for key in list(self.alpha.objects):
                self.alpha.control(key)
            for key in list(self.beta.objects):
                self.beta.control(key)
            if executes:
                await self.execute()
            self.manager.replace_records("alpha", list(self.alpha.records.values()))
            self.manager.replace("alpha", list(self.alpha.objects.values()))
            self.manager.replace("beta", list(self.assigned.jobs()))
            await self.manager.work_off()

    async def execute(self) -> None:
        AssignmentWatcher(self.executor).replace("home", list(self.assigned.objects.values()))
        own = [each for each in self.beta.objects.values() if is_own(each)]
        self.executor.replace("beta", own)
        await self.executor.work_off()

    def run(self) -> JobKey:
        [found] = self.beta.objects
        return found


def is_own(job: Object) -> bool:
    return (job["metadata"].get("labels") or {}).get(EXECUTOR) == "beta"


@pytest.fixture
async def region(monkeypatch: pytest.MonkeyPatch) -> ExecutorRegion:
    """A job of alpha waits in Coplace's queue."""
    monkeypatch.setattr(reconciler, "_RETRY_S", 0)
    found = ExecutorRegion()
    found.key = found.alpha.submit(managed_job("lu"))
    await found.settle()
    return found


def pod(region: ExecutorRegion, phase: str = "Running", **more: Any) -> Object:
    labels = {"coplace.io/grant": "1", "batch.kubernetes.io/job-name": region.run().name}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": EPOCH}
    return {
        "metadata": {"name": "p", "namespace": "physics", "uid": "p", "labels": labels},
        "spec": {"nodeName": "n1"},
        "status": {"phase": phase, "conditions": [ready], **more},
    }


async def test_a_job_runs_by_the_executor_and_all_is_let_go_after_it(
    region: ExecutorRegion,
) -> None:
    await region.start("beta")
    await region.settle()
    assert region.facts.kinds == ["job_submitted", "job_started"]
    assert region.alpha.objects[region.key]["status"]["active"] == 1
    region.beta.finish(region.run())
    await region.settle()
    assert region.facts.kinds == ["job_submitted", "job_started", "job_finished"]
    assert region.annotations()[OUTCOME] == "completed"
    assert not region.assigned.objects
    assert not region.beta.objects[region.run()]["metadata"]["finalizers"]


async def test_without_a_word_of_the_executor_a_job_has_not_started(
    region: ExecutorRegion,
) -> None:
    await region.start("beta")
    await region.settle(executes=False)
    assert region.facts.kinds == ["job_submitted"]
    await region.manager.obey([decided(VERDICT_WITHDRAWN, "beta", is_void=True)])
    await region.settle(executes=False)
    assert not region.assigned.objects
    await region.settle()
    assert not region.beta.objects


async def test_what_an_executor_has_claimed_is_taken_back_once_it_says_so(
    region: ExecutorRegion,
) -> None:
    region.beta.forbids_creation = True
    await region.start("beta")
    [name] = region.assigned.objects
    region.assigned.objects[name]["status"] = {"claimed": True}
    region.assigned.objects[name]["metadata"]["resourceVersion"] = "77"
    region.assigned.version = 77
    await region.manager.obey([decided(VERDICT_WITHDRAWN, "beta", is_void=True)])
    await region.settle(executes=False)
    assert name in region.assigned.objects
    region.beta.forbids_creation = False
    await region.settle()
    assert not region.assigned.objects
    assert not region.beta.objects


def counted(region: ExecutorRegion) -> dict[str, int]:
    return {str(state): count for state, count in region.executor.counts().items() if count}


async def test_copies_are_counted_by_their_state_until_they_are_let_go(
    region: ExecutorRegion,
) -> None:
    assert counted(region) == {}
    await region.start("beta")
    await region.settle()
    assert counted(region) == {"runs": 1}
    region.beta.finish(region.run())
    await region.execute()
    assert counted(region) == {"ended": 1}
    await region.settle()
    assert counted(region) == {}


async def test_a_copy_that_never_starts_is_counted_so(region: ExecutorRegion) -> None:
    region.beta.forbids_creation = True
    await region.start("beta")
    await region.execute()
    assert counted(region) == {"refused": 1}


async def test_a_copy_that_fails_again_and_again_is_counted_so(
    region: ExecutorRegion, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_words: Any) -> Any:
        raise RuntimeError("odd")

    monkeypatch.setattr(region.beta, "create", fails)
    await region.start("beta")
    await region.execute()
    assert counted(region) == {"aside": 1}


async def test_a_cluster_that_takes_no_job_has_its_grant_declined(region: ExecutorRegion) -> None:
    region.beta.forbids_creation = True
    await region.start("beta")
    await region.settle()
    assert region.facts.kinds == ["job_submitted", "job_declined"]
    assert "grant 1 on beta: exceeded quota" in [each["message"] for each in region.alpha.told]
    assert not region.assigned.objects


async def test_a_job_that_somebody_suspends_where_it_runs_waits_again(
    region: ExecutorRegion,
) -> None:
    await region.start("beta")
    await region.settle()
    region.beta.edit(region.run(), {"spec": {"suspend": True}})
    await region.settle()
    assert region.facts.kinds[-2:] == ["job_requeued", "job_finished"]
    assert not region.assigned.objects
    assert not region.beta.objects


async def test_a_job_that_is_deleted_where_it_runs_is_cancelled(region: ExecutorRegion) -> None:
    await region.start("beta")
    await region.settle()
    region.beta.remove(region.run())
    await region.settle()
    assert region.facts.kinds[-1] == "job_finished"
    assert not region.assigned.objects
    assert not region.beta.objects


async def test_an_executor_that_is_cut_off_lets_its_jobs_run(region: ExecutorRegion) -> None:
    await region.start("beta")
    await region.settle()
    await region.settle(executes=False)
    assert region.beta.runs(region.run())
    assert region.facts.kinds == ["job_submitted", "job_started"]


async def test_pods_that_another_executor_saw_count_after_its_end(region: ExecutorRegion) -> None:
    await region.start("beta")
    await region.settle()
    PodWatcher(region.executor).changed("beta", pod(region))
    await region.settle()
    region.executor = region.another_executor()
    at = {"startedAt": EPOCH, "finishedAt": "2026-01-01T00:01:00Z"}
    await region.execute()
    over = pod(region, "Succeeded", containerStatuses=[{"state": {"terminated": at}}])
    over["status"]["conditions"] = []
    PodWatcher(region.executor).changed("beta", over)
    await region.executor.work_off()
    [assigned] = region.assigned.objects.values()
    [found] = assigned["status"]["pods"]
    assert found["isOver"]
    assert found["readyUs"]
    assert found["endedUs"] - found["readyUs"] == 60 * _SECOND_US


async def test_an_assignment_that_cannot_be_read_stops_nothing(region: ExecutorRegion) -> None:
    odd = list[str]()
    executor = JobExecutor("beta", region.assigned, region.beta, lambda: NOW_US, odd.append)
    watcher = AssignmentWatcher(executor)
    watcher.changed("home", {"metadata": {"name": "no-namespace"}})
    watcher.deleted("home", {"metadata": {"name": "no-namespace"}})
    executor.changed("beta", {})
    await executor.work_off()
    assert odd == ["home", "beta"]


async def test_jobs_of_others_are_none_of_the_executor(region: ExecutorRegion) -> None:
    key = region.beta.submit(suspended_job("theirs", suspend=False))
    region.executor.changed("beta", region.beta.objects[key])
    await region.executor.work_off()
    assert region.beta.runs(key)


class LostAnswer:
    """Beta does what it is asked for, but the answer on a creation is lost."""

    def __init__(self, server: Any) -> None:
        self.server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self.server, name)

    async def create(self, key: JobKey, body: Any) -> Any:
        with suppress(ApiConflictError):
            await self.server.create(key, body)
        raise ApiUnavailableError("cut")


async def test_a_job_whose_creation_was_not_answered_is_not_said_never_to_have_run(
    region: ExecutorRegion,
) -> None:
    await region.start("beta")
    lost: Any = LostAnswer(region.beta)
    executor = JobExecutor("beta", region.assigned, lost, lambda: NOW_US)
    watcher = AssignmentWatcher(executor)
    watcher.replace("home", list(region.assigned.objects.values()))
    await executor.work_off()
    assert region.beta.objects
    await region.manager.obey([decided(VERDICT_WITHDRAWN, "beta", is_void=True)])
    region.manager.replace("beta", list(region.assigned.jobs()))
    await region.manager.work_off()
    watcher.replace("home", list(region.assigned.objects.values()))
    await executor.work_off()
    [assigned] = region.assigned.objects.values()
    assert "refused" not in assigned["status"]
    assert assigned["status"]["uid"]
    await region.settle()
    assert not region.beta.objects
    assert not region.assigned.objects


async def test_of_many_pods_is_reported_now_and_then(region: ExecutorRegion) -> None:
    await region.start("beta")
    await region.settle()
    now_s = [100.0]
    own = (region.assigned, region.beta, lambda: NOW_US, str, lambda: now_s[0])
    region.executor = JobExecutor("beta", *own)
    await region.execute()
    watcher, log = PodWatcher(region.executor), region.assigned.log
    for number in range(101):
        watcher.changed("beta", merged(pod(region), {"metadata": {"uid": f"p{number}"}}))
    await region.executor.work_off()
    before = len(log)
    for number in range(101):
        watcher.deleted("beta", merged(pod(region), {"metadata": {"uid": f"p{number}"}}))
        await region.executor.work_off()
    assert len(log) == before
    now_s[0] += 0.2
    watcher.changed("beta", merged(pod(region), {"metadata": {"uid": "another"}}))
    await region.executor.work_off()
    assert len(log) == before + 1


async def test_a_job_waits_again_once_nobody_can_let_its_run_go_on(
    region: ExecutorRegion,
) -> None:
    await region.start("beta")
    await region.settle()
    region.beta.edit(region.run(), {"spec": {"suspend": True}})
    region.beta.control(region.run())
    await region.execute()  # it has ended, and somebody may let it run again
    region.manager.replace("beta", list(region.assigned.jobs()))
    await region.manager.work_off()
    assert "job_requeued" not in region.facts.kinds
    region.beta.edit(region.run(), {"spec": {"suspend": False}})
    await region.execute()
    assert not region.beta.runs(region.run())
    await region.settle()
    assert region.facts.kinds[-2:] == ["job_requeued", "job_finished"]


async def test_a_process_that_has_not_seen_an_assignment_gives_no_grant_back(
    region: ExecutorRegion,
) -> None:
    await region.start("beta")
    await region.execute()
    region.manager = region.another()
    region.manager.replace_records("alpha", list(region.alpha.records.values()))
    region.manager.replace("alpha", list(region.alpha.objects.values()))
    await region.manager.obey([decided(VERDICT_WITHDRAWN, "beta", is_void=True)])
    await region.manager.work_off()
    assert region.claim()["isLive"]
    await region.settle()
    assert not region.claim()["isLive"]
    assert not region.beta.objects


async def test_a_stalled_executor_creates_nothing_that_was_taken_back(
    region: ExecutorRegion,
) -> None:
    await region.start("beta")
    [name] = region.assigned.objects
    key = JobAssignment.parse("beta", region.assigned.objects[name]).key
    await region.assigned.say(key, {"metadata": {}, "status": {"claimed": True}})
    stalled = region.another_executor()
    AssignmentWatcher(stalled).changed("home", region.assigned.objects[name])
    await region.manager.obey([decided(VERDICT_WITHDRAWN, "beta", is_void=True)])
    region.manager.replace("beta", list(region.assigned.jobs()))
    await region.manager.work_off()
    await region.execute()
    assert region.assigned.objects[name]["status"]["refused"]
    await stalled.work_off()
    assert not region.beta.starts


async def test_the_end_of_a_run_that_was_released_is_published_before_its_assignment_goes(
    region: ExecutorRegion,
) -> None:
    await region.start("beta")
    await region.settle()
    apis: Any = {"alpha": region.alpha, "beta": region.assigned}
    found = await release(apis, TERMS, wait_s=0)
    assert len(found.running) == 1
    await region.settle()
    assert not region.beta.objects[region.run()]["metadata"]["finalizers"]
    assert region.beta.runs(region.run())
    region.beta.finish(region.run())
    await region.execute()
    region.manager.replace("beta", list(region.assigned.jobs()))  # the copy is looked at first
    await region.manager.work_off()
    await region.settle()
    assert region.facts.kinds[-1] == "job_finished"
    assert region.facts.outcomes == [JOB_OUTCOME_COMPLETED]
    assert not region.assigned.objects

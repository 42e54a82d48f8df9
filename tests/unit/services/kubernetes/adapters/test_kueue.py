"""A copy in a cluster whose own Kueue says when it runs, with a way into it and by its executor."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from coplace.v1.placement_pb2 import VERDICT_CANCELLED

from services.kubernetes.adapters.executor import JobExecutor
from services.kubernetes.adapters.kueue import GrantedCheck, WorkloadWatcher
from services.kubernetes.adapters.reconciler import JobReconciler
from services.kubernetes.model.jobs import JobKey
from shared.kubernetes.api import ApiMissingError
from shared.kueue.names import GRANTED_CHECK, QUEUE_LABEL
from tests.support.assignments import MemoryAssignments
from tests.support.kubernetes_api import MemoryApiServer, Object, suspended_job
from tests.support.kueue_jobs import KueueOfJobs
from tests.unit.services.kubernetes.adapters.test_reconciler import Told, decided, started
from tests.unit.services.kubernetes.objects import TERMS
from tests.unit.shared.kubernetes.objects import NOW_US

QUEUED = replace(TERMS, kueue_queues={"beta": "main"}, ready_within_s=600.0)
_S = 1_000_000


class Site:
    """A Job of alpha may run on beta, as its Kueue says."""

    def __init__(self) -> None:
        self.alpha, self.beta = MemoryApiServer("alpha"), KueueOfJobs("beta", now_us=NOW_US)
        self.facts = Told()
        self.now_us = NOW_US
        self.shown: list[Object] = []
        self.manager = self.another()

    def another(self) -> JobReconciler:
        """A process that has seen nothing yet."""
        apis: Any = {"alpha": self.alpha, "beta": self.beta}
        return JobReconciler(apis, self.facts, QUEUED, lambda: self.now_us)

    def restart(self) -> None:
        """Whoever answers the check begins anew."""
        self.manager = self.another()

    def forget_that_it_runs(self) -> None:
        """Who answers the check was away since before the copy ran."""
        self.restart()
        [record] = self.alpha.records.values()
        record["status"]["claim"]["runUid"] = ""

    async def settle(self, rounds: int = 8, *, is_ticking: bool = True) -> None:
        for _ in range(rounds):
            if is_ticking:
                self.beta.tick()
            for server in (self.alpha, self.beta):
                for key in list(server.objects):
                    server.control(key)
            self.manager.replace_records("alpha", list(self.alpha.records.values()))
            self.manager.replace("alpha", list(self.alpha.objects.values()))
            await self.look_at_beta()
            await self.manager.work_off()

    async def look_at_beta(self) -> None:
        """What there is in beta is seen."""
        self.manager.replace("beta", list(self.beta.objects.values()))
        WorkloadWatcher(self.manager).replace("beta", self.workloads())

    def workloads(self) -> list[Object]:
        """What the watch of Workloads has."""
        return self.shown or list(self.beta.kueue.workloads.values())

    @property
    def copy(self) -> JobKey:
        [found] = self.beta.objects
        return found

    def status(self) -> Any:
        return self.alpha.objects[JobKey("alpha", "physics", "lu")].get("status") or {}

    def check(self) -> str:
        [body] = self.beta.kueue.workloads.values()
        return str(body["status"]["admissionChecks"][0]["state"])


class SiteByExecutor(Site):
    """Beta is reached by its executor alone."""

    def __init__(self) -> None:
        self.assigned = MemoryAssignments("beta")
        super().__init__()
        self.executor = self.another_executor()

    def another(self) -> JobReconciler:
        apis: Any = {"alpha": self.alpha, "beta": self.assigned}
        return JobReconciler(apis, self.facts, QUEUED, lambda: self.now_us)

    def another_executor(self, *, follows_kueue: bool = True) -> JobExecutor:
        """A process that has seen nothing yet."""
        own = (self.assigned, self.beta, lambda: self.now_us)
        return JobExecutor("beta", *own, follows_kueue=follows_kueue)

    def restart(self) -> None:
        super().restart()
        self.executor = self.another_executor()

    def forget_that_it_runs(self) -> None:
        super().forget_that_it_runs()
        [assigned] = self.assigned.objects.values()
        assigned["status"] = {"claimed": True}

    async def look_at_beta(self) -> None:
        self.executor.replace_assignments(list(self.assigned.objects.values()))
        self.executor.replace("beta", list(self.beta.objects.values()))
        WorkloadWatcher(self.executor).replace("beta", self.workloads())
        await self.executor.work_off()
        self.manager.replace("beta", list(self.assigned.jobs()))


@pytest.fixture(params=[Site, SiteByExecutor])
async def site(request: pytest.FixtureRequest) -> Site:
    """A grant on beta was claimed for a managed Job of alpha."""
    found: Site = request.param()
    found.alpha.submit(suspended_job("lu", managedBy="coplace.io/manager"))
    await found.settle()
    await found.manager.obey([started("beta")])
    return found


async def test_a_copy_runs_once_kueue_has_quota_and_its_status_comes_home(site: Site) -> None:
    site.beta.kueue.quota = 0
    await site.settle()
    job = site.beta.objects[site.copy]
    assert job["metadata"]["labels"][QUEUE_LABEL] == "main"
    assert job["spec"]["suspend"]
    assert site.facts.kinds == ["job_submitted"]
    site.beta.kueue.quota = 16
    await site.settle()
    assert site.check() == "Ready"
    assert not site.beta.objects[site.copy]["spec"]["suspend"]
    assert site.facts.kinds == ["job_submitted", "job_started"]
    assert site.status()["active"] == 1
    site.beta.finish(site.copy)
    await site.settle()
    assert site.facts.kinds == ["job_submitted", "job_started", "job_finished"]
    assert [each["type"] for each in site.status()["conditions"]] == ["Complete"]
    assert len(site.beta.starts) == 1


async def test_a_job_that_only_looks_like_a_copy_is_not_let_run(site: Site) -> None:
    """Its labels say the grant; it is not what the record says."""
    site.beta.kueue.quota = 0
    await site.settle()
    granted = site.beta.objects[site.copy]["spec"]["template"]["metadata"]["labels"]
    mine = suspended_job("mine")
    mine["metadata"]["labels"] = {QUEUE_LABEL: "main"}
    mine["spec"]["template"]["metadata"]["labels"] = dict(granted)
    key = site.beta.submit(mine)
    site.beta.kueue.quota = 2
    forged = site.beta.workload(key)
    site.beta.tick()
    site.beta.kueue.reserve(forged)
    await site.settle()
    assert site.beta.kueue.workloads[forged]["status"]["admissionChecks"][0]["state"] == "Pending"
    assert site.beta.objects[key]["spec"]["suspend"]


async def test_what_kueue_evicts_waits_again_and_runs_no_more_under_its_grant(site: Site) -> None:
    await site.settle()
    site.beta.evict(site.copy)
    await site.settle()
    kinds = ["job_submitted", "job_started", "job_requeued", "job_finished"]
    assert site.facts.kinds == kinds
    assert not site.beta.objects
    await site.manager.obey([started("beta", grant=2)])
    await site.settle()
    assert [grant for _, grant in site.beta.starts] == [1, 2]


async def test_a_run_that_began_and_was_evicted_unseen_is_not_let_run_again(site: Site) -> None:
    """The process was away: Kueue's Workload says that it was admitted once."""
    await site.settle(2)
    while site.beta.objects[site.copy]["spec"]["suspend"]:
        await site.settle(1)
    site.forget_that_it_runs()
    site.facts.kinds.clear()
    site.beta.evict(site.copy)
    site.beta.tick()
    await site.settle()
    assert site.facts.kinds == ["job_started", "job_requeued", "job_finished", "job_submitted"]
    assert len(site.beta.starts) == 1


@pytest.mark.parametrize("is_seen", [False, True])
async def test_a_run_that_is_being_evicted_unseen_and_has_to_end_is_charged(
    site: Site, *, is_seen: bool
) -> None:
    """Its Job is suspended already, and its Workload still admitted; of that a watch may be
    late."""
    await site.settle(2)
    waited = deepcopy(site.workloads())
    while site.beta.objects[site.copy]["spec"]["suspend"]:
        await site.settle(1)
    site.forget_that_it_runs()
    site.facts.kinds.clear()
    site.beta.evict(site.copy)
    site.beta.edit(site.copy, {"spec": {"suspend": True}})
    if not is_seen:
        site.shown = waited
    await site.manager.obey([decided(VERDICT_CANCELLED)])
    await site.settle(4, is_ticking=False)
    site.shown = []
    await site.settle()
    assert site.facts.kinds == ["job_started", "job_finished"]
    assert not site.beta.objects


async def test_what_kueue_does_not_let_run_in_time_gives_its_grant_back(site: Site) -> None:
    site.beta.kueue.quota = 0
    await site.settle()
    site.now_us += 601 * _S
    await site.settle()
    assert site.facts.kinds == ["job_submitted", "job_declined"]
    assert not site.beta.objects
    [declined] = [each for each in site.alpha.told if each["reason"] == "Declined"]
    assert declined["message"] == "grant 1 on beta: Kueue did not let it run within 600 s"
    assert not site.beta.starts


async def test_a_copy_that_kueue_lets_run_in_the_same_moment_is_not_taken_back(site: Site) -> None:
    """The copy is deleted as it was seen alone: it has begun by then."""
    site.beta.kueue.quota = 0
    await site.settle()
    site.now_us += 601 * _S
    await site.settle(1, is_ticking=False)
    site.beta.edit(site.copy, {"spec": {"suspend": False}})
    await site.settle(is_ticking=False)
    assert "job_declined" not in site.facts.kinds
    assert "job_started" in site.facts.kinds


@pytest.mark.parametrize("is_begun", [False, True])
async def test_a_job_that_is_cancelled_is_taken_out_of_kueue(site: Site, *, is_begun: bool) -> None:
    site.beta.kueue.quota = 16 if is_begun else 0
    await site.settle()
    await site.manager.obey([decided(VERDICT_CANCELLED)])
    await site.settle()
    last = "job_finished" if is_begun else "job_declined"
    assert site.facts.kinds[-1] == last
    assert not site.beta.objects
    assert len(site.beta.starts) == is_begun
    assert [each["type"] for each in site.status()["conditions"]] == ["FailureTarget", "Failed"]


async def test_another_process_goes_on_with_what_waits_in_kueue(site: Site) -> None:
    site.beta.kueue.quota = 0
    await site.settle()
    site.restart()
    site.beta.kueue.quota = 16
    await site.settle()
    assert [grant for _, grant in site.beta.starts] == [1]
    assert "job_started" in site.facts.kinds


async def test_a_copy_that_somebody_deletes_in_kueue_gives_its_grant_back(site: Site) -> None:
    site.beta.kueue.quota = 0
    await site.settle()
    site.beta.remove(site.copy)
    await site.settle()
    assert site.facts.kinds == ["job_submitted", "job_declined"]
    assert not site.beta.objects


async def test_an_executor_that_does_not_follow_kueue_has_nothing_wait_there() -> None:
    site = SiteByExecutor()
    site.executor = site.another_executor(follows_kueue=False)
    site.alpha.submit(suspended_job("lu", managedBy="coplace.io/manager"))
    await site.settle()
    await site.manager.obey([started("beta")])
    await site.settle()
    assert site.facts.kinds == ["job_submitted", "job_declined"]
    assert not site.beta.log
    [declined] = [each for each in site.alpha.told if each["reason"] == "Declined"]
    assert "set kueue.enabled in its chart" in declined["message"]


class OneCheck:
    """An API server with an AdmissionCheck, or without."""

    cluster = "beta"

    def __init__(self, *, is_there: bool) -> None:
        self._is_there = is_there
        self.status: Object = {}
        self.activations = 0

    async def read(self, path: str) -> Object:
        assert path.endswith(f"/{GRANTED_CHECK}")
        if not self._is_there:
            raise ApiMissingError("no such check")
        return {"metadata": {"name": GRANTED_CHECK, "generation": 2}, "status": self.status}

    async def activate_check(self, body: Any) -> None:
        self.activations += 1
        self.status = body["status"]


async def test_the_check_is_said_to_be_answered_once() -> None:
    api = OneCheck(is_there=True)
    check = GrantedCheck(api, lambda: NOW_US)
    await check.look()
    await check.look()
    assert api.activations == 1
    assert api.status["conditions"][0]["observedGeneration"] == 2


async def test_a_check_that_is_missing_is_awaited() -> None:
    api = OneCheck(is_there=False)
    await GrantedCheck(api, lambda: NOW_US).look()
    assert not api.activations

"""What decisions and states ask for is done at API servers and published to ingest."""

from typing import Any

import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import (
    VERDICT_REJECTED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)
from coplace.v1.pricing_pb2 import ChargeMade

from coplace_client.ingest import FactRefusedError
from services.kubernetes.adapters import reconciler
from services.kubernetes.adapters.reconciler import JobReconciler
from services.kubernetes.model.jobs import JobKey
from services.kubernetes.model.names import OUTCOME, PROBLEM
from services.kubernetes.processor.seen import SeenJob
from shared.kubernetes.names import JOB_ID
from tests.support.kubernetes_api import EPOCH, MemoryApiServer, Object, suspended_job
from tests.unit.services.kubernetes.objects import JOB_ID as LU
from tests.unit.services.kubernetes.objects import TERMS, ended_pod
from tests.unit.shared.kubernetes.objects import NOW_US


class Told:
    """Takes every fact."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.outcomes: list[int] = []
        self.refusal = ""

    async def tell(self, event: Envelope) -> None:
        if self.refusal:
            raise FactRefusedError(self.refusal)
        self.kinds.append(event.WhichOneof("payload") or "")
        if event.HasField("job_finished"):
            self.outcomes.append(event.job_finished.outcome)


def decided(verdict: Any, cluster: str = "alpha", grant: int = 1, **how: Any) -> PlacementDecided:
    return PlacementDecided(
        job_id=LU, attempt=1, verdict=verdict, cluster=cluster, grant=grant, **how
    )


def started(cluster: str, grant: int = 1) -> PlacementDecided:
    how = {"freq_ghz": 2.1, "walltime_s": 60, "node_names": ["n1"]}
    return decided(VERDICT_START, cluster, grant, **how)


class Region:
    """Two clusters and the reconciler that starts their Jobs."""

    def __init__(self) -> None:
        self.alpha, self.beta = MemoryApiServer("alpha"), MemoryApiServer("beta")
        self.facts = Told()
        self.key = JobKey("alpha", "physics", "lu")
        # The features that clusters were asked to declare, each with what had been submitted then.
        self.offered: list[tuple[str, int]] = []
        # Why jobs are not submitted yet.
        self.unsubmitted = ""
        self.manager = self.another()

    def another(self) -> JobReconciler:
        """A process that has seen nothing yet."""
        apis = {"alpha": self.alpha, "beta": self.beta}
        return JobReconciler(apis, self.facts, TERMS, lambda: NOW_US, offer=self.offer)

    async def offer(self, asked: JobSubmitted) -> str:
        assert asked in [*self.manager.asked()]
        self.offered.append((asked.features, len(self.facts.kinds)))
        return self.unsubmitted

    async def settle(self) -> None:
        for _ in range(6):
            for server in (self.alpha, self.beta):
                for key in list(server.objects):
                    server.control(key)
                self.manager.replace_records(server.cluster, list(server.records.values()))
                self.manager.replace(server.cluster, list(server.objects.values()))
            await self.manager.work_off()

    async def start(self, cluster: str, grant: int = 1) -> None:
        await self.manager.obey([started(cluster, grant)])
        await self.manager.work_off()

    def reasons(self) -> list[str]:
        """Of the events that users read, but those of its course."""
        course = ("Planned", "Queued", "Granted", "Started")
        return [one["reason"] for one in self.alpha.told if one["reason"] not in course]

    def annotations(self, key: JobKey | None = None) -> Object:
        found: Object = self.alpha.objects[key or self.key]["metadata"]["annotations"]
        return found

    def claim(self) -> Object:
        """What is kept of its grants where no user writes."""
        [record] = self.alpha.records.values()
        found: Object = record["status"]["claim"]
        return found


@pytest.fixture
async def region() -> Region:
    """A job of alpha waits in Coplace's queue."""
    found = Region()
    found.key = found.alpha.submit(suspended_job("lu"))
    await found.settle()
    return found


async def test_a_job_is_taken_started_reported_and_let_go(region: Region) -> None:
    assert region.annotations()[JOB_ID] == LU
    await region.start("alpha")
    await region.settle()
    region.alpha.finish(region.key, "Failed")
    await region.settle()
    assert region.facts.kinds == ["job_submitted", "job_started", "job_finished"]
    assert region.annotations()[OUTCOME] == "failed"
    assert not region.alpha.objects[region.key]["metadata"]["finalizers"]


async def test_a_job_that_waits_for_a_cluster_is_taken_and_says_so_and_is_submitted_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reconciler, "_UNSUBMITTED_S", 0)
    region = Region()
    region.unsubmitted = "beta is not declared yet"
    region.key = region.alpha.submit(suspended_job("lu"))
    await region.settle()
    assert region.facts.kinds == []
    assert region.alpha.objects[region.key]["metadata"]["finalizers"]
    [record] = region.alpha.records.values()
    assert record["status"]["why"] == "beta is not declared yet"
    assert region.reasons() == ["Waits"]
    writes = region.alpha.version
    await region.settle()
    assert (region.alpha.version, len(region.reasons())) == (writes, 1)
    region.unsubmitted = ""
    await region.settle()
    assert region.facts.kinds == ["job_submitted"]


async def test_a_job_that_is_deleted_while_it_waits_for_a_cluster_is_reported_whole() -> None:
    region = Region()
    region.unsubmitted = "beta is not declared yet"
    region.key = region.alpha.submit(suspended_job("lu"))
    await region.settle()
    region.alpha.remove(region.key)
    await region.settle()
    assert region.facts.kinds == ["job_submitted", "job_finished"]
    assert not region.alpha.objects


class Asked:
    """An API server, and what it was asked for."""

    def __init__(self, server: MemoryApiServer) -> None:
        self.server = server
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.names.append(name)
        return getattr(self.server, name)


async def test_nothing_is_read_of_a_job_that_this_process_takes_and_lets_run() -> None:
    """Who writes a record once its Job was seen knows it."""
    alpha, facts, key = MemoryApiServer("alpha"), Told(), JobKey("alpha", "physics", "lu")
    asked = Asked(alpha)
    apis: Any = {"alpha": asked}
    manager = JobReconciler(apis, facts, TERMS, lambda: NOW_US)

    async def see() -> None:
        manager.changed("alpha", alpha.objects[key])
        await manager.work_off()

    alpha.submit(suspended_job("lu"))
    await see()
    await manager.obey([started("alpha")])
    await manager.work_off()
    alpha.control(key)
    alpha.finish(key)
    await see()
    assert facts.kinds == ["job_submitted", "job_started", "job_finished"]
    assert not alpha.objects[key]["metadata"]["finalizers"]
    requests = [name for name in asked.names if name != "tell"]
    taken, run, ended = (["patch"], ["patch_record", "patch", "patch_record"], ["patch_record"])
    assert requests == ["create_record", *taken, *run, *ended, "patch"]


async def test_what_this_process_wrote_is_not_looked_at_again_when_the_watch_has_it(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = list[Any]()

    def look(seen: SeenJob, *_more: Any) -> tuple[()]:
        looks.append(seen)
        return ()

    monkeypatch.setattr(reconciler, "reconcile", look)
    [record] = region.alpha.records.values()
    region.manager.changed("alpha", region.alpha.objects[region.key])
    region.manager.changed_record("alpha", record)
    await region.manager.work_off()
    assert not looks
    region.alpha.edit(region.key, {"metadata": {"annotations": {"of": "a user's"}}})
    region.manager.changed("alpha", region.alpha.objects[region.key])
    await region.manager.work_off()
    assert len(looks) == 1


async def test_a_job_runs_elsewhere_as_a_copy_that_is_let_go_after_it(region: Region) -> None:
    await region.start("beta")
    await region.settle()
    [copy] = region.beta.objects
    assert region.alpha.objects[region.key]["spec"]["suspend"]
    region.beta.finish(copy)
    await region.settle()
    assert region.annotations()[OUTCOME] == "completed"
    assert not region.beta.objects[copy]["metadata"]["finalizers"]


async def test_a_copy_that_is_removed_after_its_end_is_not_made_again(region: Region) -> None:
    await region.start("beta")
    await region.settle()
    [copy] = region.beta.objects
    region.beta.finish(copy)
    region.beta.remove(copy)
    await region.settle()
    assert region.beta.starts == [(LU, 1)]
    assert not region.beta.objects
    assert region.facts.kinds[-1] == "job_finished"


async def test_a_stalled_process_that_goes_on_declines_nothing_that_another_started(
    region: Region,
) -> None:
    stalled, region.manager = region.manager, region.another()
    await region.settle()
    await region.start("alpha")
    await stalled.obey([decided(VERDICT_WITHDRAWN)])
    assert "job_declined" not in region.facts.kinds
    assert region.claim()["isLive"]


async def test_decisions_on_a_job_that_come_together_are_obeyed_in_their_order(
    region: Region,
) -> None:
    withdrawn = decided(VERDICT_WITHDRAWN)
    await region.manager.obey([withdrawn, started("alpha"), started("alpha", grant=2)])
    assert region.claim()["grant"] == 2
    assert region.facts.kinds[-1] == "job_declined"


async def test_a_cluster_that_takes_no_copy_has_its_grant_declined(region: Region) -> None:
    region.beta.forbids_creation = True
    await region.start("beta")
    await region.settle()
    assert region.facts.kinds == ["job_submitted", "job_declined"]
    region.beta.forbids_creation = False
    await region.start("beta")
    assert not region.beta.objects
    messages = [each["message"] for each in region.alpha.told]
    assert "grant 1 on beta: exceeded quota" in messages


async def test_a_job_that_cannot_be_understood_says_why_and_stops_nothing(region: Region) -> None:
    wrong = suspended_job("wrong")
    wrong["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": ["cpu"]}
    key = region.alpha.submit(wrong)
    await region.settle()
    assert "resources.requests: must be" in region.annotations(key)[PROBLEM]
    assert region.reasons() == ["NotUnderstood"]
    assert region.facts.kinds == ["job_submitted"]
    repaired = {"annotations": {"coplace.io/walltime-s": "60"}}
    region.alpha.edit(key, {"metadata": repaired})
    await region.settle()
    assert region.reasons() == ["NotUnderstood"]


async def test_clusters_declare_what_a_job_selects_before_it_is_submitted(region: Region) -> None:
    chosen = suspended_job("chosen")
    chosen["spec"]["template"]["spec"]["nodeSelector"] = {"zone": "a"}
    region.alpha.submit(chosen)
    await region.settle()
    assert region.offered == [("", 0), ("zone=a", 1)]
    assert region.facts.kinds == ["job_submitted", "job_submitted"]


async def test_a_user_reads_once_what_counts_for_a_job_that_does_not_say(region: Region) -> None:
    silent = suspended_job("silent")
    silent["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    region.alpha.submit(silent)
    await region.settle()
    await region.settle()
    [event] = [one for one in region.alpha.told if "no CPU" in one["message"]]
    assert (event["reason"], event["type"]) == ("Planned", "Normal")
    assert "it requests no CPU: 1 counts for each pod" in event["message"]


def managed_job(name: str) -> Object:
    return suspended_job(name, managedBy="coplace.io/manager")


@pytest.mark.parametrize("cluster", ["alpha", "beta"])
@pytest.mark.parametrize("kind", ["Complete", "Failed"])
async def test_a_managed_job_shows_at_home_how_its_copy_goes(cluster: str, kind: str) -> None:
    region = Region()
    region.key = region.alpha.submit(managed_job("lu"))
    await region.settle()
    await region.start(cluster)
    await region.settle()
    there = region.alpha if cluster == "alpha" else region.beta
    [copy] = [key for key in there.objects if key != region.key]
    status = region.alpha.objects[region.key]["status"]
    assert (status["active"], status["startTime"]) == (1, EPOCH)
    assert "conditions" not in status
    [event] = [one for one in region.alpha.told if one["reason"] == "Started"]
    assert event["message"] == f"its pods and logs are on {cluster}: physics/{copy.name}"
    there.finish(copy, kind)
    await region.settle()
    [condition] = region.alpha.objects[region.key]["status"]["conditions"]
    assert condition["type"] == kind
    assert copy not in there.objects or not there.objects[copy]["metadata"]["finalizers"]
    assert region.facts.kinds == ["job_submitted", "job_started", "job_finished"]


async def test_a_managed_job_that_never_runs_has_failed_with_the_reason() -> None:
    region = Region()
    region.key = region.alpha.submit(managed_job("lu"))
    await region.settle()
    await region.manager.obey([decided(VERDICT_REJECTED, reason="no cluster has a GPU")])
    await region.settle()
    status = region.alpha.objects[region.key]["status"]
    assert [one["type"] for one in status["conditions"]] == ["FailureTarget", "Failed"]
    assert status["conditions"][1]["message"] == "rejected: no cluster has a GPU"
    assert status["startTime"]


async def test_a_managed_job_that_waits_again_shows_no_pods() -> None:
    region = Region()
    region.key = region.alpha.submit(managed_job("lu"))
    await region.settle()
    await region.start("beta")
    await region.settle()
    [copy] = region.beta.objects
    region.beta.edit(copy, {"spec": {"suspend": True}})
    await region.settle()
    assert "job_requeued" in region.facts.kinds
    status = region.alpha.objects[region.key]["status"]
    assert not status.get("active")
    assert not status.get("startTime")


async def test_a_job_that_somebody_lets_run_without_a_grant_is_suspended_again(
    region: Region,
) -> None:
    region.alpha.edit(region.key, {"spec": {"suspend": False}})
    await region.settle()
    assert region.alpha.objects[region.key]["spec"]["suspend"]


async def test_a_job_that_pretends_to_be_another_is_not_started_for_it(region: Region) -> None:
    thief = suspended_job("thief")
    thief["metadata"]["annotations"] = {JOB_ID: LU}
    stolen = region.alpha.submit(thief)
    await region.settle()
    await region.start("alpha")
    assert not region.alpha.objects[region.key]["spec"]["suspend"]
    assert region.alpha.objects[stolen]["spec"]["suspend"]


async def test_a_fact_that_ingest_refuses_holds_its_job_and_no_other(region: Region) -> None:
    region.facts.refusal = "account 'physics' is outside its scope"
    key = region.alpha.submit(suspended_job("another"))
    await region.settle()
    assert OUTCOME not in region.annotations(key)
    assert region.facts.refusal in region.annotations(key)[PROBLEM]


async def test_a_start_of_a_job_that_was_never_here_is_declined() -> None:
    region = Region()
    await region.start("beta")
    assert region.facts.kinds == ["job_declined"]


@pytest.mark.parametrize("reason", ["PreemptionByScheduler", "DeletionByTaintManager"])
async def test_a_run_whose_pod_kubernetes_ended_waits_again(region: Region, reason: str) -> None:
    await region.start("alpha")
    await region.settle()
    pod = ended_pod("lu", {"coplace.io/grant": "1"}, reason)
    region.manager.see_pod("alpha", pod)
    await region.settle()
    assert region.facts.kinds[-2:] == ["job_requeued", "job_finished"]
    await region.start("alpha", 2)
    assert [grant for _, grant in region.alpha.starts] == [1, 2]
    assert not region.alpha.objects[region.key]["spec"]["suspend"]


async def test_what_a_run_cost_is_kept_and_said_while_its_record_is_there(region: Region) -> None:
    await region.settle()
    charge = ChargeMade(job_id=LU, attempt=1, cores=2, runtime_s=60, price_su="0.5")
    await region.manager.note_charge(charge)
    await region.manager.work_off()
    [record] = region.alpha.records.values()
    assert record["status"]["charged"]["priceSu"] == "0.5"
    [event] = [each for each in region.alpha.told if each["reason"] == "Charged"]
    assert "0.5 service units" in event["message"]
    await region.manager.note_charge(ChargeMade(job_id="north/alpha/physics/no/1/1"))
    assert region.reasons() == ["Charged"]


async def test_a_process_that_saw_neither_a_job_nor_its_record_does_not_decline_what_runs(
    region: Region,
) -> None:
    """It was stalled while another one took the Job, and the Job is not there any more: the record
    has the word on its grant."""
    stalled = region.another()
    await region.start("beta")
    await region.settle()
    region.alpha.edit(region.key, {"metadata": {"finalizers": []}})
    region.alpha.remove(region.key)
    await stalled.obey([started("beta"), decided(VERDICT_WITHDRAWN, "beta", is_void=True)])
    assert region.facts.kinds == ["job_submitted", "job_started"]
    [record] = region.alpha.records.values()
    assert record["status"]["stop"]["then"] == "forget"


async def test_a_process_that_was_stalled_takes_no_job_again_that_is_not_there_any_more(
    region: Region,
) -> None:
    """It saw the Job in the queue; another one published its end and deleted its record."""
    stalled, region.manager = region.manager, region.another()
    await region.settle()
    region.alpha.remove(region.key)
    await region.settle()
    assert not region.alpha.records
    await stalled.obey([started("beta")])
    await stalled.work_off()
    assert not region.alpha.records
    assert not region.beta.objects
    assert region.facts.kinds[-1] == "job_declined"

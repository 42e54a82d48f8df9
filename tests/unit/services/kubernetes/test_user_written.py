"""What a user writes in his own Job ends, blocks and misleads nothing, and takes no nodes that were
not granted."""

import asyncio
from typing import Any

import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_pb2 import (
    VERDICT_CANCELLED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)

from services.kubernetes.adapters import reconciler, sight
from services.kubernetes.adapters.reconciler import JobReconciler
from services.kubernetes.model.jobs import JobKey
from services.kubernetes.model.names import (
    CLAIM,
    COPY_OF,
    FINALIZER,
    OUTCOME,
    PROBLEM,
    QUEUE_NAME,
    STOP,
)
from services.kubernetes.model.states import QueueState
from shared.kubernetes import node_reporter
from shared.kubernetes.api import ApiRefusedError, ApiUnavailableError
from tests.attacks.kubernetes import VALUES, Watched, play
from tests.support.kubernetes_api import MemoryApiServer, Object, suspended_job
from tests.unit.services.kubernetes.objects import CREATED_US, TERMS
from tests.unit.shared.kubernetes.objects import NOW_US

LU = "north/alpha/physics/lu/00000001/1767225600"
FORGED = {
    CLAIM: '{"grant":0,"attempt":1,"is_live":true,"declined":0,"cluster":"nowhere","freq_ghz":2,'
    '"walltime_s":9,"at_us":1767300000000000,"nodes":["n[1-500]"],"node_units":[]}',
    STOP: '{"then":"forget","reason":"x","at_us":1767300000000000,"failed_nodes":["n7"]}',
    OUTCOME: "completed",
}


class Facts:
    """Takes every fact."""

    def __init__(self) -> None:
        self.events: dict[str, Envelope] = {}

    async def tell(self, event: Envelope) -> None:
        self.events.setdefault(event.id, event)

    def kinds(self) -> list[str]:
        return [each.WhichOneof("payload") or "" for each in self.events.values()]

    def kinds_of(self, job_id: str) -> list[str]:
        """Of one job."""
        kinds = zip(self.events.values(), self.kinds(), strict=True)
        return [kind for event, kind in kinds if getattr(event, kind).job_id == job_id]


class Region:
    """Two clusters, of which alpha has a Job `lu` in the queue."""

    def __init__(self) -> None:
        self.alpha, self.beta = MemoryApiServer("alpha"), MemoryApiServer("beta")
        self.facts = Facts()
        self.manager = self.another()
        self.key = self.alpha.submit(suspended_job("lu"))

    def another(self) -> JobReconciler:
        apis = {"alpha": self.alpha, "beta": self.beta}
        return JobReconciler(apis, self.facts, TERMS, lambda: NOW_US)

    async def settle(self) -> None:
        for _ in range(6):
            for server in (self.alpha, self.beta):
                for key in list(server.objects):
                    server.control(key)
                found = list(server.objects.values())
                queued = [each for each in found if QUEUE_NAME in each["metadata"]["labels"]]
                self.manager.replace_records(server.cluster, list(server.records.values()))
                self.manager.replace(server.cluster, queued)
            await self.manager.work_off()

    async def obey(self, verdict: Any = VERDICT_START, grant: int = 1, **how: Any) -> None:
        told = {"cluster": "alpha", "freq_ghz": 2.1, "walltime_s": 60, "node_names": ["n1"], **how}
        decision = PlacementDecided(job_id=LU, attempt=1, verdict=verdict, grant=grant, **told)
        await self.manager.obey([decision])

    async def edit(self, patch: Object) -> None:
        self.alpha.edit(self.key, patch)
        await self.settle()

    @property
    def job(self) -> Object:
        return self.alpha.objects[self.key]


@pytest.fixture
async def region() -> Region:
    found = Region()
    await found.settle()
    return found


@pytest.fixture
async def running(region: Region) -> Region:
    await region.obey()
    await region.settle()
    assert region.facts.kinds() == ["job_submitted", "job_started"]
    return region


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzzer tries again at once, and reads the log."""
    for name in ("log", "_RETRY_S", "_REFUSED_RETRY_S"):
        monkeypatch.setattr(reconciler, name, getattr(reconciler, name))
    monkeypatch.setattr(node_reporter, "log", node_reporter.log)


@pytest.mark.parametrize("name", list(FORGED))
async def test_forged_words_change_nothing_of_a_run(running: Region, name: str) -> None:
    await running.edit({"metadata": {"annotations": {name: FORGED[name]}}})
    running.manager = running.another()
    await running.settle()
    assert not running.job["spec"]["suspend"]
    running.alpha.finish(running.key)
    await running.settle()
    assert running.facts.kinds() == ["job_submitted", "job_started", "job_finished"]
    assert FINALIZER not in running.job["metadata"]["finalizers"]


async def test_forged_words_start_nothing(region: Region) -> None:
    await region.edit({"metadata": {"annotations": FORGED}, "spec": {"suspend": False}})
    assert region.job["spec"]["suspend"]
    assert region.facts.kinds_of(LU) == ["job_submitted"]
    await region.obey()
    await region.settle()
    assert region.alpha.starts[-1] == (LU, 1)


async def test_a_run_has_no_more_pods_and_no_more_time_than_were_granted(running: Region) -> None:
    await running.edit({"spec": {"parallelism": 2**31 - 1, "completions": None}})
    await running.edit({"spec": {"activeDeadlineSeconds": None}})
    assert (running.job["spec"]["parallelism"], running.job["spec"]["activeDeadlineSeconds"]) == (
        1,
        60,
    )


async def test_a_job_that_asks_for_more_after_it_was_submitted_has_what_was_submitted(
    region: Region,
) -> None:
    await region.edit({"spec": {"parallelism": 2**31 - 1, "completions": None}})
    await region.obey()
    await region.settle()
    assert region.job["spec"]["parallelism"] == 1
    region.alpha.remove(region.key)
    await region.settle()
    [end] = [each.job_finished for each in region.facts.events.values()][-1:]
    assert (end.nodes, end.cores) == (1, 2)


async def test_pods_that_grew_after_they_were_submitted_do_not_start(region: Region) -> None:
    await region.edit({"spec": {"template": {"spec": {"overhead": {"cpu": "64"}}}}})
    assert region.job["metadata"]["annotations"][OUTCOME] == "cancelled"
    await region.obey()
    assert region.job["spec"]["suspend"]


async def test_a_start_that_somebody_takes_into_his_own_hands_is_declined(region: Region) -> None:
    await region.obey()
    await region.edit({"spec": {"suspend": False}})
    assert region.facts.kinds_of(LU) == ["job_submitted", "job_declined"]
    assert region.job["spec"]["suspend"]
    assert len(charged_by_hand(region)) == 1


async def test_the_end_of_a_job_is_reported_whose_finalizer_was_taken(running: Region) -> None:
    running.alpha.edit(running.key, {"metadata": {"finalizers": None}})
    running.alpha.remove(running.key)
    running.manager = running.another()
    await running.settle()
    assert running.facts.kinds()[-1] == "job_finished"
    assert not running.alpha.records


async def test_a_finalizer_and_a_label_that_were_taken_are_set_back(running: Region) -> None:
    await running.edit({"metadata": {"finalizers": None, "labels": {QUEUE_NAME: "other"}}})
    assert running.job["metadata"]["finalizers"] == [FINALIZER]
    await running.edit({"metadata": {"labels": {QUEUE_NAME: None}}})
    assert running.job["metadata"]["labels"][QUEUE_NAME] == "coplace"


async def test_a_job_that_leaves_the_queue_before_it_starts_is_cancelled(region: Region) -> None:
    await region.edit({"metadata": {"labels": {QUEUE_NAME: None}}})
    assert region.facts.kinds() == ["job_submitted", "job_finished"]
    assert not region.job["metadata"]["finalizers"]


async def test_a_job_that_ran_by_hand_before_it_was_seen_is_reported_as_that(
    region: Region,
) -> None:
    region.alpha.edit(region.key, {"spec": {"suspend": False}})
    region.alpha.control(region.key)
    region.alpha.finish(region.key)
    await region.settle()
    end = list(region.facts.events.values())[-1].job_finished
    assert (end.grant, end.started_at_us > 0) == (0, True)


async def let_run_by_hand(region: Region) -> None:
    """Until its controller has it run, before Coplace sees that."""
    region.alpha.edit(region.key, {"spec": {"suspend": False}})
    region.alpha.control(region.key)


def charged_by_hand(region: Region) -> list[Any]:
    """The ends of runs without a grant that their Jobs outlive."""
    ends = [each.job_finished for each in region.facts.events.values()]
    return [end for end in ends if "-by-hand/" in end.job_id]


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_run_by_hand_that_is_suspended_before_its_end_is_charged_and_its_job_waits(
    region: Region, is_replaced: bool
) -> None:
    await let_run_by_hand(region)
    region.manager.replace("alpha", [region.job])
    await region.manager.work_off()
    assert region.job["spec"]["suspend"]
    if is_replaced:
        region.manager = region.another()
    await region.settle()
    [end] = charged_by_hand(region)
    assert (end.grant, end.attempt, end.cores, end.started_at_us) == (0, 1, 2, CREATED_US)
    assert end.started_at_us <= end.ended_at_us <= NOW_US
    kinds = region.facts.kinds()
    assert kinds == ["job_submitted", "job_finished", "job_submitted"]
    await region.obey()
    await region.settle()
    assert region.facts.kinds()[-1] == "job_started"


async def test_a_run_by_hand_is_charged_where_its_user_suspended_it_himself(region: Region) -> None:
    await let_run_by_hand(region)
    region.alpha.edit(region.key, {"spec": {"suspend": True}})
    region.manager.replace("alpha", [region.job])
    await region.manager.work_off()
    await region.settle()
    assert len(charged_by_hand(region)) == 1


@pytest.mark.parametrize("how", ["cancelled in Coplace", "deleted", "its label is taken"])
async def test_a_run_by_hand_of_a_job_that_is_then_over_is_charged_once(
    region: Region, how: str
) -> None:
    await let_run_by_hand(region)
    region.manager.replace("alpha", [region.job])
    await region.manager.work_off()
    if how == "cancelled in Coplace":
        await region.obey(VERDICT_CANCELLED, grant=0)
    elif how == "deleted":
        region.alpha.remove(region.key)
    else:
        region.alpha.edit(region.key, {"metadata": {"labels": {QUEUE_NAME: None}}})
    await region.settle()
    assert len(charged_by_hand(region)) == 1
    assert FINALIZER not in (region.alpha.objects.get(region.key) or {"metadata": {}})[
        "metadata"
    ].get("finalizers", ())


async def test_a_job_that_is_over_and_let_run_by_hand_is_suspended_and_charged(
    region: Region,
) -> None:
    await region.obey(VERDICT_CANCELLED, grant=0)
    await region.settle()
    await let_run_by_hand(region)
    await region.settle()
    assert region.job["spec"]["suspend"]
    assert len(charged_by_hand(region)) == 1


async def test_a_run_whose_job_leaves_the_queue_while_it_is_suspended_has_its_end(
    running: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sight, "_OUTSIDE_S", 0.01)
    manager, server = running.manager, running.alpha
    server.edit(running.key, {"spec": {"suspend": True}})
    manager.changed("alpha", running.job)
    await manager.work_off()
    server.edit(running.key, {"metadata": {"labels": {QUEUE_NAME: "other"}, "finalizers": None}})
    manager.deleted("alpha", running.job)
    await manager.work_off()
    del server.objects[running.key]  # of which no list and no watch of the queue has a word
    await asyncio.sleep(0.05)
    await manager.work_off()
    assert running.facts.kinds().count("job_finished") == 1


async def test_an_ended_job_outside_the_queue_is_not_kept_and_its_record_goes_after_it(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sight, "_OUTSIDE_S", 0.01)
    monkeypatch.setattr(sight, "_ENDED_OUTSIDE_S", (0.01, 0.01))
    manager, server = region.manager, region.alpha
    server.edit(region.key, {"metadata": {"labels": {QUEUE_NAME: None}}})
    manager.deleted("alpha", region.job)
    await manager.work_off()
    assert region.facts.kinds() == ["job_submitted", "job_finished"]
    assert (manager.mirror.jobs(), len(server.records)) == ([], 1)
    del server.objects[region.key]
    await asyncio.sleep(0.05)
    await manager.work_off()
    assert not server.records


async def test_a_run_that_somebody_suspends_is_charged_and_its_job_waits_again(
    running: Region,
) -> None:
    await running.edit({"spec": {"suspend": True}})
    kinds = ["job_submitted", "job_started", "job_requeued", "job_finished"]
    assert running.facts.kinds() == kinds
    end = list(running.facts.events.values())[-1].job_finished
    assert (end.attempt, end.grant, end.started_at_us > 0) == (1, 1, True)


async def test_a_copy_that_its_user_lets_vanish_has_an_end(region: Region) -> None:
    await region.obey(cluster="beta")
    await region.settle()
    [copy] = region.beta.objects
    region.beta.edit(copy, {"metadata": {"finalizers": None}})
    region.beta.remove(copy)
    region.beta.submit(suspended_job(copy.name))  # it is another one, which waits
    await region.settle()
    assert sorted(region.facts.kinds())[:2] == ["job_finished", "job_started"]
    assert [each["spec"]["suspend"] for each in region.beta.objects.values()] == [True]


async def test_a_copy_that_was_ended_is_deleted_whatever_its_user_writes(region: Region) -> None:
    await region.obey(cluster="beta")
    await region.settle()
    [copy] = region.beta.objects
    await region.obey(VERDICT_CANCELLED, cluster="beta")
    region.beta.edit(copy, {"metadata": {"labels": {COPY_OF: None}}})
    await region.settle()
    assert not region.beta.objects
    assert region.facts.kinds() == ["job_submitted", "job_started", "job_finished"]


async def test_a_job_that_runs_elsewhere_does_not_run_at_home_too(region: Region) -> None:
    await region.obey(cluster="beta")
    await region.edit({"spec": {"suspend": False}})
    assert region.job["spec"]["suspend"]


async def test_a_job_that_says_it_is_a_copy_is_refused_and_does_not_run(region: Region) -> None:
    fake = suspended_job("fake")
    fake["metadata"]["labels"][COPY_OF] = "beta"
    key = region.alpha.submit(fake)
    region.alpha.edit(key, {"spec": {"suspend": False}})
    await region.settle()
    found = region.alpha.objects[key]
    assert "copy-of" in found["metadata"]["annotations"][PROBLEM]
    assert found["spec"]["suspend"]


async def test_a_job_that_takes_no_annotation_blocks_nothing(region: Region) -> None:
    used = sum(
        len(name) + len(told) for name, told in region.job["metadata"]["annotations"].items()
    )
    await region.edit({"metadata": {"annotations": {"x": "y" * (256 * 1024 - used - 1)}}})
    await asyncio.wait_for(region.obey(), 1)
    await region.settle()
    region.alpha.finish(region.key)
    await region.settle()
    assert region.facts.kinds() == ["job_submitted", "job_started", "job_finished"]


class Broken(MemoryApiServer):
    """Takes no change of one Job."""

    async def patch(self, key: JobKey, body: Any) -> Object:
        if key.name == "lu":
            raise self.failure
        return await super().patch(key, body)

    failure: Exception = ApiRefusedError("denied by a webhook")


@pytest.mark.parametrize(
    ("failure", "state"),
    [
        (ApiRefusedError("denied by a webhook"), QueueState.ASIDE),
        (ApiUnavailableError("the webhook does not answer"), QueueState.WAITS),
        (KeyError("whatever"), QueueState.ASIDE),
    ],
)
async def test_a_job_that_cannot_be_changed_is_set_aside_and_others_go_on(
    failure: Exception, state: QueueState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "log", Watched())
    region = Region()
    region.alpha = broken = Broken("alpha")
    broken.failure = failure
    region.manager = region.another()
    broken.submit(suspended_job("lu"))
    good = broken.submit(suspended_job("good"))
    await region.settle()
    await asyncio.wait_for(region.obey(), 1)
    assert broken.objects[good]["metadata"]["finalizers"] == [FINALIZER]
    assert region.manager.counts()["alpha"].of(state)


async def test_a_grant_that_was_given_back_before_it_began_starts_no_more(region: Region) -> None:
    await region.obey()
    await region.obey(VERDICT_CANCELLED)
    await region.settle()
    assert region.facts.kinds() == ["job_submitted", "job_declined"]
    assert not region.alpha.starts
    await region.obey(VERDICT_WITHDRAWN)
    await region.settle()
    assert region.job["metadata"]["annotations"][OUTCOME].startswith("cancelled")


async def test_objects_of_any_shape_are_left_out(running: Region) -> None:
    for shown in VALUES:
        running.manager.replace("alpha", [shown, *running.alpha.objects.values()])
        running.manager.replace_records("alpha", [shown, *running.alpha.records.values()])
        for see in (running.manager.changed, running.manager.deleted, running.manager.see_pod):
            see("alpha", shown)
        await running.manager.work_off()
    running.alpha.finish(running.key)
    await running.settle()
    assert running.facts.kinds() == ["job_submitted", "job_started", "job_finished"]


@pytest.mark.parametrize("seed", [1, 2])
async def test_mutated_objects_end_block_and_mislead_nothing(seed: int) -> None:
    course = await play(800, seed)
    assert course.mutated == 800

"""However events, copies, gaps, refusals and kills fall, no grant starts twice, none starts that
was declined, no job runs twice at once, and every end is published.

API servers, the Job controller, users and Coplace are played in memory; what is counted is what the
API servers were written, not what the resource manager says of itself.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobDeclined, JobRequeued, JobStarted
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_REQUEUE,
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    Action,
    PlacementDecided,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from services.kubernetes.adapters import executor, reconciler
from services.kubernetes.adapters.executor import JobExecutor
from services.kubernetes.adapters.kueue import WorkloadWatcher
from services.kubernetes.adapters.reconciler import JobReconciler
from services.kubernetes.adapters.releasing import JobReleaser
from services.kubernetes.model.assignments import JobAssignment, job_shown
from services.kubernetes.model.jobs import JobKey
from services.kubernetes.model.names import (
    EXECUTOR,
    FINALIZER,
    MANAGED_BY,
    OUTCOME,
    QUEUE_NAME,
)
from services.kubernetes.model.queues import QueueCounts
from services.kubernetes.model.states import QueueState
from shared.kubernetes import decisions
from shared.kubernetes.api import ApiUnavailableError
from shared.kubernetes.names import GRANT, JOB_ID
from tests.attacks.kubernetes import Watched
from tests.support.assignments import MemoryAssignments
from tests.support.fated_api import Fate, FatedApi, KilledError
from tests.support.kubernetes_api import MemoryApiServer, suspended_job
from tests.support.kueue_jobs import KueueOfJobs
from tests.unit.services.kubernetes.objects import TERMS, ended_pod
from tests.unit.shared.kubernetes.objects import NOW_US

CLUSTERS = ("alpha", "beta")
BY = ("", "kueue", "executor", "executor and kueue")
WATCHED = Watched()


@pytest.fixture(autouse=True, scope="module")
def impatient() -> Iterator[None]:
    """What is tried again is tried at once, and what fails for good is not only logged."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (reconciler, executor):
            patch.setattr(module, "_RETRY_S", 0)
            patch.setattr(module, "_REFUSED_RETRY_S", 0)
        for module in (reconciler, executor, decisions):
            patch.setattr(module, "log", WATCHED)
        yield


@dataclass
class PlainCoplace:
    """Ingest, and a placement that grants at random but by the rules of grants: the next one only
    when the one before was answered, or seized."""

    fate: Fate
    facts: dict[str, Envelope] = field(default_factory=dict)
    decisions: list[PlacementDecided] = field(default_factory=list)
    position: int = 0
    grants: Counter[str] = field(default_factory=Counter)
    attempts: dict[str, int] = field(default_factory=dict)
    answers: dict[tuple[str, int], str] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    ended: Counter[str] = field(default_factory=Counter)
    ends: Counter[tuple[str, int]] = field(default_factory=Counter)
    dropped: set[str] = field(default_factory=set)
    seized: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    """What nobody may say. Who publishes would take an error here for one of ingest, and go on."""

    async def tell(self, event: Envelope) -> None:
        async def take() -> None:
            if event.id not in self.facts:
                self.facts[event.id] = event
                self._fold(event)

        try:
            await self.fate.around(take)
        except ApiUnavailableError:
            await self.tell(event)  # as the sender does: until it is acknowledged

    def _fold(self, event: Envelope) -> None:
        kind = event.WhichOneof("payload")
        fact = getattr(event, kind or "")
        match kind:
            case "job_submitted":
                self.attempts[fact.job_id] = 1
            case "job_started":
                self._answered(fact, "started")
            case "job_declined":
                self._answered(fact, "declined")
                self.holders.pop(fact.job_id, None)
            case "job_requeued":
                self._requeued(fact)
            case "job_finished":
                self.ends[fact.job_id, fact.attempt] += 1
                if fact.attempt < self.attempts.get(fact.job_id, 1):
                    return  # of a run that was requeued
                self.ended[fact.job_id] += 1
                self.holders.pop(fact.job_id, None)

    def _requeued(self, fact: JobRequeued) -> None:
        known = self.attempts.get(fact.job_id)
        if known is None:
            self.wrong.append(f"{fact.job_id} was requeued before it was submitted")
        elif fact.attempt == known + 1:
            self.attempts[fact.job_id] = fact.attempt
            self.holders.pop(fact.job_id, None)

    def _answered(self, fact: JobStarted | JobDeclined, word: str) -> None:
        """The first answer is final. Of a job whose end was published no more is heard, and of an
        attempt that was seized neither: its end was the last word on its grant, and what follows
        is dropped as of an older attempt."""
        if fact.job_id in self.ended or (fact.job_id, fact.attempt) in self.ends:
            return
        before = self.answers.setdefault((fact.job_id, fact.grant), word)
        if before != word:
            self.wrong.append(f"grant {fact.grant} of {fact.job_id} was {before}, then {word}")

    def waiting(self) -> list[str]:
        gone = {*self.holders, *self.ended, *self.dropped}
        return sorted(self.attempts.keys() - gone)

    def start(self, job_id: str, cluster: str, start_by_us: int) -> None:
        self.grants[job_id] += 1
        self.holders[job_id] = cluster
        how: dict[str, Any] = {"freq_ghz": 2.1, "walltime_s": 600, "node_names": ["n[1-2]"]}
        self._decide(job_id, VERDICT_START, cluster, start_by_us=start_by_us, **how)

    def withdraw(self, job_id: str, *, is_void: bool) -> None:
        if is_void:
            self._decide(job_id, VERDICT_WITHDRAWN, self.holders.pop(job_id), is_void=True)
            self.attempts[job_id] += 1
            self.seized.add(job_id)
        else:
            self._decide(job_id, VERDICT_WITHDRAWN, self.holders[job_id])

    def cancel(self, job_id: str) -> None:
        self.dropped.add(job_id)
        cluster = self.holders.get(job_id, "")
        self._decide(job_id, VERDICT_CANCELLED, cluster, with_grant=bool(cluster))

    def act(self, job_id: str, kind: "Action.Kind.ValueType") -> None:  # type: ignore[name-defined]
        action = Action(kind=kind, number=1)
        self._decide(job_id, VERDICT_ACTION, self.holders[job_id], action=action)

    def _decide(
        self, job_id: str, verdict: int, cluster: str, *, with_grant: bool = True, **more: Any
    ) -> None:
        self.decisions.append(
            PlacementDecided(
                job_id=job_id,
                attempt=self.attempts[job_id],
                verdict=verdict,  # type: ignore[arg-type]
                cluster=cluster,
                grant=self.grants[job_id] if with_grant else 0,
                **more,
            )
        )


def has_grant(job: Any) -> bool:
    return bool(job["spec"]["template"]["metadata"]["labels"].get(GRANT))


def is_released(job: Any) -> bool:
    """In this play nobody else takes a Job out of the queue."""
    labels = job["metadata"]["labels"]
    return QUEUE_NAME not in labels and EXECUTOR not in labels


class ExecutorPlay:
    """The executor of cluster beta, with a fate of its own."""

    def __init__(self, server: MemoryApiServer) -> None:
        self.server, self.assigned, self.fate = server, MemoryAssignments("beta"), Fate()
        self.stalled: JobExecutor | None = None
        self.begin()

    def begin(self) -> None:
        """It starts: it lists all."""
        home, own = FatedApi(self.assigned, self.fate), FatedApi(self.server, self.fate)
        has_kueue = isinstance(self.server, KueueOfJobs)
        self.process = JobExecutor("beta", home, own, lambda: NOW_US, follows_kueue=has_kueue)
        self.relist()

    def replace_process(self) -> None:
        """Another one starts while the old one is stopped."""
        self.stalled = self.process
        self.begin()

    def relist(self) -> None:
        """What gaps in both watches lead to."""
        self.seen = len(self.assigned.log), len(self.server.log)
        self.process.replace_assignments(list(self.assigned.objects.values()))
        own = [each for each in self.server.objects.values() if EXECUTOR in labels_of(each)]
        self.process.replace("beta", own)
        self.see_workloads()

    def see_workloads(self) -> None:
        """The watch of Kueue's Workloads is there."""
        if isinstance(self.server, KueueOfJobs):
            WorkloadWatcher(self.process).replace(
                "beta", list(self.server.kueue.workloads.values())
            )

    def deliver(self, most: int) -> None:
        """Some of what both watches have."""
        at, own_at = self.seen
        for _, kind, each in self.assigned.log[at : at + most]:
            is_gone = kind == "DELETED"
            take = self.process.deleted_assignment if is_gone else self.process.changed_assignment
            take(each)
        for _, kind, each in self.server.log[own_at : own_at + most]:
            if EXECUTOR in labels_of(each):
                tell = self.process.deleted if kind == "DELETED" else self.process.changed
                tell("beta", each)
        self.seen = (
            min(len(self.assigned.log), at + most),
            min(len(self.server.log), own_at + most),
        )

    async def work(self, process: JobExecutor | None = None) -> None:
        """It does what follows, unless it is killed."""
        try:
            await (process or self.process).work_off()
        except KilledError:
            self.begin()


def labels_of(job: Any) -> Any:
    return job["metadata"].get("labels") or {}


class Play:
    """One course of everything."""

    def __init__(self, draw: Callable[..., Any], by: str = "") -> None:
        """Copies on beta run as its own `kueue` says, as its `executor` does, or as both do, where
        they go `by` these."""
        self.draw = draw
        self.now_us = NOW_US
        self.fate = Fate()
        self.servers = {each: MemoryApiServer(each) for each in CLUSTERS}
        self.kueue = KueueOfJobs("beta", now_us=NOW_US) if "kueue" in by else None
        if self.kueue is not None:
            self.servers["beta"] = self.kueue
        self.executor = ExecutorPlay(self.servers["beta"]) if "executor" in by else None
        self.terms = replace(TERMS, kueue_queues={"beta": "main"}) if self.kueue else TERMS
        self.coplace = PlainCoplace(self.fate)
        self.wrong = WATCHED.unexpected = self.coplace.wrong
        self.stalled: JobReconciler | None = None
        self.stalled_read = 0
        for server in self.servers.values():
            server.on_write = self.no_job_runs_twice
        self.begin()

    def replace_process(self) -> None:
        """Another process starts while the old one is stopped: it will go on as if nothing had
        been."""
        self.stalled, self.stalled_read = self.manager, self.read
        self.begin()

    async def obey_stalled(self, most: int) -> None:
        """The old one reads on, and does what follows from what it saw."""
        if self.stalled is not None:
            for decision in self.coplace.decisions[self.stalled_read : self.stalled_read + most]:
                await self.stalled.obey([decision])
                self.stalled_read += 1
            if self.draw(st.booleans()):
                await self.stalled.work_off()

    def begin(self) -> None:
        """A process starts: it lists all, and reads decisions from where it had committed."""
        self.manager = JobReconciler(self.apis(), self.coplace, self.terms, lambda: self.now_us)
        self.seen = dict.fromkeys(CLUSTERS, 0)
        self.read = self.coplace.position
        for name in CLUSTERS:
            self.relist(name)

    def apis(self) -> dict[str, Any]:
        """What the process asks."""
        there: dict[str, Any] = dict(self.servers)
        if self.executor is not None:
            there["beta"] = self.executor.assigned
        return {name: FatedApi(server, self.fate) for name, server in there.items()}

    def relist(self, name: str) -> None:
        """What a gap in the watch leads to."""
        if self.executor is not None and name == "beta":
            self.seen[name] = len(self.executor.assigned.log)
            self.manager.replace(name, list(self.executor.assigned.jobs()))
            return
        server = self.servers[name]
        self.seen[name] = len(server.log)
        self.manager.replace_records(name, list(server.records.values()))
        listed = [dict(each) for each in server.objects.values() if not is_released(each)]
        self.manager.replace(name, listed)
        self.see_workloads()

    def see_workloads(self) -> None:
        """The watch of Kueue's Workloads is there."""
        if self.kueue is not None and self.executor is None:
            WorkloadWatcher(self.manager).replace("beta", list(self.kueue.kueue.workloads.values()))

    def control(self, name: str, keys: Sequence[JobKey], *, slowly: bool = False) -> None:
        """Controllers look at Jobs; at all of those that are in its queue Kueue does."""
        if self.kueue is not None and name == "beta":
            self.kueue.tick()
        for key in keys:
            self.servers[name].control(key, slowly=slowly)

    def log(self, name: str) -> Sequence[tuple[int, str, Any]]:
        """What the watch of Jobs of a cluster has."""
        if self.executor is None or name != "beta":
            return self.servers[name].log
        return [(at, kind, job_shown(each)) for at, kind, each in self.executor.assigned.log]

    def deliver(self, name: str, most: int, *, again: int = 0) -> None:
        """Some of what a watch has; some of it once more."""
        log, begin = self.log(name), max(0, self.seen[name] - again)
        end = min(len(log), self.seen[name] + most)
        for _, kind, each in log[begin:end]:
            is_gone = kind == "DELETED" or is_released(each)
            tell = self.manager.deleted if is_gone else self.manager.changed
            tell(name, each)
        self.seen[name] = max(end, self.seen[name])

    async def obey(self, most: int) -> None:
        """Decisions are read, obeyed and committed."""
        for decision in self.coplace.decisions[self.read : self.read + most]:
            await self.manager.obey([decision])
            self.read += 1
        if self.draw(st.booleans()):
            self.coplace.position = self.read

    async def step(self) -> None:
        """Anything happens."""
        draw = self.draw
        name = draw(st.sampled_from(CLUSTERS))
        kind = draw(st.sampled_from(KINDS))
        try:
            await kind(self, name)
        except KilledError:
            self.begin()

    def some_job(self, name: str) -> JobKey | None:
        keys = sorted(self.servers[name].objects)
        return self.draw(st.sampled_from(keys)) if keys else None

    def no_job_runs_twice(self) -> None:
        """After every write."""
        running = Counter(
            (each["metadata"].get("annotations") or {}).get(JOB_ID, key)
            for server in self.servers.values()
            for key, each in server.objects.items()
            if server.runs(key)
            and (has_grant(each) or is_released(each))
            and not each["metadata"].get("deletionTimestamp")
        )
        if max(running.values(), default=0) > 1:
            self.wrong.append(f"runs twice at once: {running}")

    def check_counts(self) -> None:
        """What is counted as it changes is what is seen of all Jobs."""
        seen, sight = self.manager.mirror, Counter[str]()
        for job in seen.jobs():
            record = seen.record(job.id)
            sight[job.cluster] += record is not None or not job.is_copy
        counts = self.manager.counts()
        for name in CLUSTERS:
            found = counts.get(name, QueueCounts())
            assert sum(map(found.of, QueueState)) == sight[name]
        waits = {
            each.id: each.job_id
            for each in seen.records()
            if not (each.claim.is_live or each.outcome or each.released_at_us)
        }
        assert self.manager.waiting() == waits

    def starts(self) -> list[tuple[str, int]]:
        return [each for server in self.servers.values() for each in server.starts if each[1]]

    def check(self) -> None:
        """What has been written, published and logged so far."""
        assert self.wrong == []
        starts = Counter(self.starts())
        assert max(starts.values(), default=0) <= 1, starts
        declined = {grant for grant, word in self.coplace.answers.items() if word == "declined"}
        assert not declined & starts.keys()
        assert max(self.coplace.ended.values(), default=0) <= 1
        assert max(self.coplace.ends.values(), default=0) <= 1

    async def settle(self) -> None:
        """Nothing goes wrong any more: all work ends."""
        self.fate.strikes.clear()
        for server in self.servers.values():
            server.forbids_creation = False
        if self.executor is not None:
            self.executor.fate.strikes.clear()
            self.executor.assigned.forbids_creation = False
        if self.kueue is not None:
            self.kueue.kueue.quota = 100
        for _ in range(12):
            for name, server in self.servers.items():
                self.control(name, list(server.objects))
                self.relist(name)
            await self.execute()
            await self.manager.work_off()
            await self.obey(len(self.coplace.decisions))

    async def execute(self) -> None:
        """The executor sees what there is, and does what follows."""
        if self.executor is not None:
            self.executor.relist()
            await self.executor.work()

    def check_assignments(self) -> None:
        """What runs by the executor is assigned, and nothing is left of what is over."""
        assert self.executor is not None
        live = {each.run_key for each in self.manager.mirror.records() if each.claim.is_live}
        assigned = {
            JobAssignment.parse("beta", r).key: r for r in self.executor.assigned.objects.values()
        }
        assert assigned.keys() <= live, assigned
        for key, each in self.servers["beta"].objects.items():
            if EXECUTOR in labels_of(each) and self.servers["beta"].runs(key):
                is_released = FINALIZER not in each["metadata"]["finalizers"]
                assert key in assigned or is_released, each

    def check_rest(self) -> None:
        """Every grant that was not seized has its answer, and what ended was published and let
        go."""
        told = self.coplace.answers
        if self.executor is not None:
            self.check_assignments()
        for job_id in self.coplace.holders:
            assert (job_id, self.coplace.grants[job_id]) in told
        for server in self.servers.values():
            for key, each in server.objects.items():
                gone = each["metadata"].get("deletionTimestamp") or server.has_ended(key)
                gone = gone or is_released(each)
                assert not (gone and FINALIZER in each["metadata"].get("finalizers", ())), each
                if is_released(each):
                    job_id = each["metadata"]["annotations"].get(JOB_ID, "")
                    assert not has_grant(each), each
                    # What is published of an attempt before a seizure ends no job.
                    elsewhere = self.coplace.dropped | self.coplace.seized
                    is_known = job_id in self.coplace.attempts.keys() - elsewhere
                    assert self.coplace.ended[job_id] == 1 or not is_known
                is_managed = each["spec"].get("managedBy")
                if is_managed and OUTCOME in each["metadata"]["annotations"]:
                    assert server.has_ended(key), each


async def submit(play: Play, name: str) -> None:
    """Of a cluster with an executor its own Jobs are none of ours."""
    name = "alpha" if play.executor else name
    server = play.servers[name]
    if len(server.log) < 40:
        managed: dict[str, Any] = {"managedBy": MANAGED_BY} if play.draw(st.booleans()) else {}
        name = f"job-{play.draw(st.integers(1, 3))}-{server.uids}"
        server.submit(suspended_job(name, **managed))


async def watch(play: Play, name: str) -> None:
    play.deliver(name, play.draw(st.integers(1, 5)), again=play.draw(st.integers(0, 3)))
    await play.manager.work_off()


async def gap(play: Play, name: str) -> None:
    play.relist(name)
    await play.manager.work_off()


async def control(play: Play, name: str) -> None:
    if key := play.some_job(name):
        play.control(name, [key], slowly=play.draw(st.booleans()))


async def finish(play: Play, name: str) -> None:
    if key := play.some_job(name):
        play.servers[name].finish(key, play.draw(st.sampled_from(["Complete", "Failed"])))


async def delete(play: Play, name: str) -> None:
    if (key := play.some_job(name)) and play.draw(st.booleans()):
        play.servers[name].remove(key)


async def suspend_by_hand(play: Play, name: str) -> None:
    if key := play.some_job(name):
        play.servers[name].edit(key, {"spec": {"suspend": True}})


async def evict(play: Play, name: str) -> None:
    """A pod of what runs is ended by Kubernetes."""
    if (key := play.some_job(name)) and play.servers[name].runs(key):
        labels = play.servers[name].objects[key]["spec"]["template"]["metadata"]["labels"]
        pod = ended_pod(key.name, labels)
        if play.executor and name == "beta":
            play.executor.process.see_pod(name, pod)
            await play.executor.work()
            return
        play.manager.see_pod(name, pod)
        await play.manager.work_off()


async def evict_by_kueue(play: Play, name: str) -> None:
    """Kueue takes a copy its quota, or has none for a while."""
    if play.kueue is None:
        return
    play.kueue.kueue.quota = play.draw(st.sampled_from([0, 4, 16]))
    if key := play.some_job("beta"):
        play.kueue.evict(key)


async def decide(play: Play, name: str) -> None:
    coplace, draw = play.coplace, play.draw
    if waiting := coplace.waiting():
        by_us = draw(st.sampled_from([0, 0, NOW_US + 1, NOW_US - 1]))
        coplace.start(draw(st.sampled_from(waiting)), name, by_us)


async def ask_back(play: Play, name: str) -> None:
    if held := sorted(play.coplace.holders):
        play.coplace.withdraw(play.draw(st.sampled_from(held)), is_void=play.draw(st.booleans()))


async def cancel(play: Play, name: str) -> None:
    if (known := sorted(play.coplace.attempts)) and play.draw(st.booleans()):
        play.coplace.cancel(play.draw(st.sampled_from(known)))


async def act(play: Play, name: str) -> None:
    if held := sorted(play.coplace.holders):
        kinds = [ACTION_KIND_END, ACTION_KIND_REQUEUE, ACTION_KIND_SUSPEND]
        play.coplace.act(play.draw(st.sampled_from(held)), play.draw(st.sampled_from(kinds)))


async def obey(play: Play, name: str) -> None:
    await play.obey(play.draw(st.integers(1, 4)))


async def all_goes_on(play: Play, name: str) -> None:
    """Controllers and the resource manager see what there is, and decisions are obeyed."""
    for cluster, server in play.servers.items():
        play.control(cluster, list(server.objects))
        play.relist(cluster)
    await play.execute()
    await play.manager.work_off()
    await play.obey(2)


async def let_run_by_hand(play: Play, name: str) -> None:
    if key := play.some_job(name):
        play.servers[name].edit(key, {"spec": {"suspend": False}})


async def stall(play: Play, name: str) -> None:
    play.replace_process()


async def go_on_stalled(play: Play, name: str) -> None:
    await play.obey_stalled(play.draw(st.integers(1, 4)))


async def release_all(play: Play, name: str) -> None:
    """An operator gives the Jobs of the queue back, once or until nothing waits."""
    releaser = JobReleaser(play.apis(), TERMS, lambda: NOW_US)
    with suppress(ApiUnavailableError):
        await releaser.look_at_all()


async def strike(play: Play, name: str) -> None:
    """Something goes wrong at one of the next calls."""
    what = ["killed before", "killed after", "cut before", "cut after"]
    at = play.fate.calls + play.draw(st.integers(1, 4))
    play.fate.strikes[at] = play.draw(st.sampled_from(what))


async def forbid(play: Play, name: str) -> None:
    play.servers[name].forbids_creation = play.draw(st.booleans())
    if play.executor is not None and name == "beta":
        play.executor.assigned.forbids_creation = play.draw(st.booleans())


async def watch_of_executor(play: Play, name: str) -> None:
    if play.executor is not None:
        play.executor.deliver(play.draw(st.integers(1, 5)))
        if play.draw(st.booleans()):
            play.executor.see_workloads()
        await play.executor.work()


async def gap_of_executor(play: Play, name: str) -> None:
    await play.execute()


async def strike_executor(play: Play, name: str) -> None:
    """Something goes wrong at one of its next calls."""
    if play.executor is not None:
        what = ["killed before", "killed after", "cut before", "cut after"]
        at = play.executor.fate.calls + play.draw(st.integers(1, 4))
        play.executor.fate.strikes[at] = play.draw(st.sampled_from(what))


async def stall_executor(play: Play, name: str) -> None:
    if play.executor is not None:
        play.executor.replace_process()


async def go_on_stalled_executor(play: Play, name: str) -> None:
    if play.executor is not None and play.executor.stalled is not None:
        await play.executor.work(play.executor.stalled)


async def kill_executor(play: Play, name: str) -> None:
    if play.executor is not None:
        play.executor.begin()


KINDS = [
    *(submit, watch, watch, gap, control, control, finish, finish, delete, suspend_by_hand, evict),
    evict_by_kueue,
    *(let_run_by_hand, decide, decide, ask_back, cancel, act, obey, obey, strike, forbid, stall),
    *(watch_of_executor, watch_of_executor, watch_of_executor, gap_of_executor, strike_executor),
    *(stall_executor, go_on_stalled_executor, kill_executor),
    *(release_all, go_on_stalled, all_goes_on, all_goes_on, all_goes_on, all_goes_on),
]


async def course(play: Play, steps: int) -> None:
    for _ in range(steps):
        await play.step()
        play.check()
        play.check_counts()
    await play.settle()
    play.check()
    play.check_rest()


@pytest.mark.parametrize("by", BY)
@given(data=st.data(), steps=st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_no_grant_starts_twice_or_after_it_was_declined_and_every_end_is_reported(
    data: st.DataObject, steps: int, by: str
) -> None:
    asyncio.run(course(Play(data.draw, by), steps))


@pytest.mark.parametrize("by", BY)
async def test_the_play_is_about_jobs_that_start_here_and_elsewhere(by: str) -> None:
    """Else the property would hold of nothing."""
    play = Play(lambda _strategy: True, by)
    key = play.servers["alpha"].submit(suspended_job("lu"))
    play.servers["alpha"].submit(suspended_job("mg"))
    await play.settle()
    here, there = play.coplace.waiting()
    play.coplace.start(here, "alpha", 0)
    play.coplace.start(there, "beta", 0)
    await play.settle()
    assert Counter(play.starts()) == {(here, 1): 1, (there, 1): 1}
    [copy] = play.servers["beta"].objects
    play.servers["alpha"].finish(key)
    play.servers["beta"].finish(copy)
    await play.settle()
    assert play.coplace.ended == {here: 1, there: 1}

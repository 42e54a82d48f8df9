"""Mutated Jobs, pods, nodes and records of Kubernetes, in process: nothing that a user writes ends
the process, holds up another Job, takes nodes that were not granted or hides an end.

    python -m tests.attacks.kubernetes --records 1000000 --seed 1
"""

import argparse
import asyncio
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_pb2 import VERDICT_CANCELLED, VERDICT_START, PlacementDecided
from coplace.v1.placement_service_pb2 import ShowNodesResponse

from coplace_client.errors import RejectedError
from services.kubernetes.adapters import reconciler
from services.kubernetes.adapters.reconciler import JobReconciler
from services.kubernetes.model.facts import JobTerms
from services.kubernetes.model.jobs import JobKey, KubernetesJob
from services.kubernetes.model.names import (
    CLAIM,
    COPY_OF,
    FINALIZER,
    OUTCOME,
    PROBLEM,
    QUEUE_NAME,
    RECORD,
    STOP,
    WALLTIME_S,
)
from shared.catalogue.contents.check import check_contents
from shared.kubernetes import node_reporter
from shared.kubernetes.api import ApiRefusedError
from shared.kubernetes.names import GRANT, JOB_ID
from shared.kubernetes.node_reporter import NodeReporter
from shared.kubernetes.nodes import MixedNodesError, NodeTraits
from tests.support.kubernetes_api import EPOCH, MemoryApiServer, Object, suspended_job

CLUSTERS: Final = ("alpha", "beta")
_TRAITS: Final = NodeTraits("alpha", "north", "gold-6254", (1.2, 3.1), 110, 140, "north/kubernetes")
TERMS: Final = JobTerms(
    site="north",
    architecture="north/kubernetes",
    account_label="",
    user_label="",
    default_walltime_s=0,
    node_models={"alpha": "gold-6254", "beta": "epyc-7742"},
)
_NOW_US: Final = 1_767_300_000_000_000
_GOOD: Final = "good"
VALUES: Final[Sequence[Any]] = (
    *(None, True, False, 0, -1, 1, 2**31 - 1, 2**63, -(2**63), 1e308, float("nan"), ""),
    *("x", "\n\t", "\u202e\u200b", "ü" * 300, "a" * 5_000, "١٢", "1_000", "inf", "9" * 30),
    *([], [1], [None], [[]], [{}], {}, {"a": 1}, {"a": {"b": []}}, "alpha", "beta", EPOCH),
    *("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "True", "Complete", "1e99", "n[1-2"),
)
_FORGED: Final = (
    '{"grant":0,"attempt":1,"is_live":true,"declined":0,"cluster":"alpha","freq_ghz":2,'
    '"walltime_s":9,"at_us":1767300000000000,"nodes":["n[1-500]"],"node_units":[]}',
    '{"then":"forget","reason":"x","at_us":1767300000000000,"failed_nodes":[]}',
    '{"then":"requeue","reason":"x","at_us":1767300000000000,"failed_nodes":["n1","n2"]}',
    *("completed", "failed", "{", "null", "[]", "y" * 200_000, "alpha", "0", "99999"),
)
_NAMES: Final = (CLAIM, STOP, OUTCOME, PROBLEM, JOB_ID, WALLTIME_S, RECORD, COPY_OF, GRANT)
_AFFINITIES: Final[tuple[Any, ...]] = (None, {"podAffinity": {}})
_GIVEN_BACK: Final = ("job_declined", "job_requeued")
_MOST_GRANTS: Final = 3


class WrongError(AssertionError):
    """Something came of it that must not."""


def distorted(rng: Random, told: Any) -> Any:
    """A copy in which something, at any depth, is of another kind, missing or more."""
    found = deepcopy(told)
    for _ in range(rng.randint(1, 3)):
        at = found
        while True:
            inner = list(at.values()) if isinstance(at, dict) else at
            deeper = [each for each in inner if isinstance(each, dict | list) and each]
            if not deeper or rng.random() < 0.25:
                break
            at = rng.choice(deeper)
        value = deepcopy(rng.choice(VALUES))
        if isinstance(at, list):
            at[rng.randrange(len(at))] = value
        elif at and rng.random() < 0.2:
            del at[rng.choice(list(at))]
        else:
            at[rng.choice([*at, "more"])] = value
    return found


@dataclass
class Told:
    """Takes facts as ingest does: what it would refuse is wrong."""

    by_job: defaultdict[str, dict[str, Envelope]] = field(default_factory=lambda: defaultdict(dict))
    wrong: list[str] = field(default_factory=list)
    """What ingest would refuse: its Job is set aside for that, and the course goes on."""

    async def tell(self, event: Envelope) -> None:
        """Take one."""
        payload = getattr(event, event.WhichOneof("payload") or "")
        try:
            check_contents(payload)
        except RejectedError as error:
            self.wrong.append(f"{event.WhichOneof('payload')}: {error}")
            raise
        self.by_job[getattr(payload, "job_id", "")].setdefault(event.id, event)

    async def nodes(self, cluster: str) -> ShowNodesResponse:
        """No node is drained by anybody."""
        return ShowNodesResponse()

    def of(self, job_id: str, kind: str) -> list[Any]:
        """What was published of a job."""
        told = self.by_job.get(job_id, {}).values()
        return [getattr(each, kind) for each in told if each.HasField(kind)]  # type: ignore[arg-type]


class Watched:
    """Counts what was logged of failures that nobody expected."""

    def __init__(self) -> None:
        self.unexpected: list[str] = []

    def error(self, event: str, *, exc_info: bool = False, **told: Any) -> None:
        """Note an error."""
        if exc_info or event == "not obeyed":
            self.unexpected.append(f"{event}: {told.get('problem')}")

    def info(self, event: str, **told: Any) -> None:
        """Note nothing."""

    warning = info


@dataclass
class Course:
    """One region under attack, round by round; `mutated` counts the objects."""

    seed: int
    mutated: int = 0
    rounds: int = 0
    decided: dict[tuple[str, int], PlacementDecided] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.servers = {name: MemoryApiServer(name) for name in CLUSTERS}
        self.told, self.watched = Told(), Watched()
        self.manager = self._process()
        self.reporter = NodeReporter(_TRAITS, self.told, self.told, lambda: _NOW_US)
        self.good: dict[JobKey, str] = {}
        self.bad: list[JobKey] = []

    def _process(self) -> JobReconciler:
        return JobReconciler(self.servers, self.told, TERMS, lambda: _NOW_US)

    async def round(self, objects: int) -> None:
        """Honest Jobs run beside Jobs that are mutated; then all go, and nothing is left."""
        self._submit()
        await self._settle()
        await self._decide()
        for step in range(objects):
            self._mutate()
            if step % 8 == 0:
                await self._work()
            if step % 32 == 0:
                await self._settle()
                await self._decide()
        self._finish()
        await self._settle()
        self._check_good()
        await self._clear()
        self._check_facts()
        self.rounds += 1

    def _submit(self) -> None:
        for number in range(3):
            key = self.servers["alpha"].submit(suspended_job(f"{_GOOD}-{self.rounds}-{number}"))
            self.good[key] = "alpha" if number else "beta"
        for number in range(4):
            name = self.rng.choice(CLUSTERS)
            self.bad.append(self.servers[name].submit(suspended_job(f"bad-{number}", pods=2)))

    async def _decide(self) -> None:
        """Placement grants what waits, as often as it may."""
        wanted = grants(self.told, self.decided, self._place)
        await self.manager.obey(wanted)
        for job_id, _ in [each for each in self.decided if f"/{_GOOD}-" not in each[0]]:
            if self.rng.random() < 0.05:
                cancel = PlacementDecided(job_id=job_id, attempt=1, verdict=VERDICT_CANCELLED)
                await self.manager.obey([cancel])

    def _place(self, job_id: str) -> str:
        for key, cluster in self.good.items():
            if f"/{key.name}/" in job_id:
                return cluster
        return self.rng.choice(CLUSTERS)

    def _mutate(self) -> None:
        """Change one object of a user's in a way that the API takes, or show one that it would
        not."""
        self.mutated += 1
        self.rng.choice(_MOVES)(self)

    def edit(self) -> None:
        """What a user may write."""
        if not (key := self._victim()):
            return
        try:
            self.servers[key.cluster].edit(key, self.rng.choice(EDITS)(self.rng))
        except ApiRefusedError:
            return
        self._show(key)

    def odd(self) -> None:
        """An object of any shape, which is shown once."""
        if key := self._victim():
            server = self.servers[key.cluster]
            shown = distorted(self.rng, server.objects[key])
            if isinstance(told := shown.get("metadata"), dict) and "resourceVersion" in told:
                told["resourceVersion"] = server.objects[key]["metadata"]["resourceVersion"]
            self.manager.changed(key.cluster, shown)

    def copied(self) -> None:
        """A copy is edited by a user of its namespace."""
        for server in self.servers.values():
            for key in [each for each in server.objects if _is_bad_copy(server, each)]:
                try:
                    server.edit(key, self.rng.choice(EDITS)(self.rng))
                except ApiRefusedError:
                    continue
                self._show(key)

    def pod(self) -> None:
        """A pod that says that it is of some Job, and was lost."""
        keys = [*self.bad, JobKey("alpha", "physics", "none")]
        key = self.rng.choice(keys)
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
        labels = {GRANT: "1", "batch.kubernetes.io/job-name": key.name}
        pod = {
            "metadata": {"namespace": key.namespace, "labels": labels},
            "spec": {"nodeName": self.rng.choice(["n1", "m77"])},
            "status": {"conditions": [condition]},
        }
        self.manager.see_pod(key.cluster, distorted(self.rng, pod))

    def node(self) -> None:
        """A node of any shape."""
        whole = {
            "metadata": {"name": "n1", "creationTimestamp": EPOCH},
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
            "status": {
                "allocatable": {"cpu": "36", "memory": "192Gi"},
                "conditions": [{"type": "Ready", "status": "False", "message": "a\tb"}],
            },
        }
        self.reporter.replace("alpha", [distorted(self.rng, whole), whole | {"spec": {}}])

    def gap(self) -> None:
        """All Jobs are listed anew, among them some of any shape."""
        for name, server in self.servers.items():
            listed: list[Any] = list(server.objects.values())
            listed += [distorted(self.rng, suspended_job("odd"))]
            self.manager.replace(name, listed)

    def vanish(self) -> None:
        """A user takes the finalizer and deletes."""
        if (key := self._victim()) and self.rng.random() < 0.2:
            server = self.servers[key.cluster]
            server.edit(key, {"metadata": {"finalizers": None}})
            shown = deepcopy(server.objects.get(key) or server.log[-1][2])
            server.remove(key)
            self.manager.deleted(key.cluster, shown)

    def restart(self) -> None:
        """The process ends and another one begins."""
        if self.rng.random() < 0.02:
            self.manager = self._process()
            self._list()

    def _victim(self) -> JobKey | None:
        there = [key for key in self.bad if key in self.servers[key.cluster].objects]
        return self.rng.choice(there) if there else None

    def _show(self, key: JobKey) -> None:
        server = self.servers[key.cluster]
        if key in server.objects:
            self.manager.changed(key.cluster, deepcopy(server.objects[key]))

    def _list(self) -> None:
        for name, server in self.servers.items():
            self.manager.replace_records(name, list(server.records.values()))
            found = server.objects.values()
            queued = [each for each in found if _labels(each).get(QUEUE_NAME) == "coplace"]
            self.manager.replace(name, queued)

    async def _work(self) -> None:
        await self.manager.work_off()
        await asyncio.sleep(0)

    async def _settle(self) -> None:
        for _ in range(6):
            for server in self.servers.values():
                for key in list(server.objects):
                    server.control(key)
            self._list()
            await self._work()
        for step in (self.reporter.declare, self.reporter.publish_out):
            with suppress(MixedNodesError):
                await step()
        if wrong := [*self.watched.unexpected, *self.told.wrong]:
            raise WrongError(wrong[0])
        self._check_runs()

    def _check_runs(self) -> None:
        """What has pods has a live claim for them."""
        for server in self.servers.values():
            for key, each in server.objects.items():
                is_queued = _labels(each).get(QUEUE_NAME) == "coplace"
                if (
                    not server.runs(key)
                    or not is_queued
                    or each["metadata"].get("deletionTimestamp")
                ):
                    continue
                uid = each["metadata"]["uid"]
                claims = [
                    record["status"].get("claim") or {}
                    for other in self.servers.values()
                    for record in other.records.values()
                ]
                if not any(told.get("runUid") == uid and told["isLive"] for told in claims):
                    raise WrongError(f"{key} runs without a grant")
                if KubernetesJob(key.cluster, each).pods > 2:
                    raise WrongError(f"{key} has more than was granted")

    def _finish(self) -> None:
        for server in self.servers.values():
            for key in list(server.objects):
                server.finish(key)

    def _check_good(self) -> None:
        """Honest Jobs ran once, where they were granted, and ended."""
        for key, cluster in self.good.items():
            job_id = next(each for each in self.told.by_job if f"/{key.name}/" in each)
            kinds = ("job_submitted", "job_started", "job_finished")
            counts = [len(self.told.of(job_id, kind)) for kind in kinds]
            if counts != [1, 1, 1] or len(self.told.by_job[job_id]) != 3:
                raise WrongError(f"{job_id}: {counts}")
            [end] = self.told.of(job_id, "job_finished")
            if (end.grant, end.cluster, end.cores, end.outcome) != (1, cluster, 4, 1):
                raise WrongError(f"{job_id}: {end}")

    async def _clear(self) -> None:
        """Users take their finalizers and delete all."""
        for _ in range(3):
            for server in self.servers.values():
                for key in list(server.objects):
                    server.remove(key)
                    server.edit(key, {"metadata": {"finalizers": None}})
            await self._settle()
        for server in self.servers.values():
            if server.objects or server.records:
                raise WrongError(f"left: {list(server.objects)} {list(server.records)}")
            server.log.clear()
            server.starts.clear()
            server.told.clear()
        if len(self.manager.mirror):
            raise WrongError(f"still known: {self.manager.mirror.jobs()}")
        self.good.clear()
        self.bad.clear()

    def _check_facts(self) -> None:
        """Whatever was started was granted, and each of its runs has one end."""
        for job_id in [each for each in self.told.by_job if each]:
            starts, ends = self.told.of(job_id, "job_started"), self.told.of(job_id, "job_finished")
            for start in starts:
                granted = self.decided.get((job_id, start.grant))
                if granted is None or list(granted.node_names) != list(start.nodes):
                    raise WrongError(f"{job_id} was not granted: {start}")
                if granted.cluster != start.cluster:
                    raise WrongError(f"{job_id} elsewhere: {start}")
            runs = [(each.attempt, each.grant) for each in ends]
            if len({attempt for attempt, _ in runs}) < len(runs):
                raise WrongError(f"{job_id} ended {len(ends)} times: {runs}")
            requeued = self.told.of(job_id, "job_requeued")
            is_ended = {(each.attempt, each.grant) for each in starts} <= set(runs)
            if not is_ended or any(each.failed_nodes and _strange(each) for each in requeued):
                raise WrongError(f"{job_id}: {len(starts)} starts, {requeued}, {ends}")
            if any(end.cores > self._most_cores(job_id) for end in ends):
                raise WrongError(f"{job_id}: {ends}")
        self.told.by_job.clear()
        self.decided.clear()

    def _most_cores(self, job_id: str) -> int:
        """Of what was submitted: grants are of two pods."""
        asked = self.told.of(job_id, "job_submitted")
        return int(max(max(2, each.nodes) * each.cores_per_unit for each in asked))


def grants(
    told: Told, decided: dict[tuple[str, int], PlacementDecided], place: Callable[[str], str]
) -> list[PlacementDecided]:
    """Grant what waits, as placement does: the next grant when the one before has its answer."""
    wanted = [
        _granted(told, job_id, grant, place(job_id))
        for job_id in list(told.by_job)
        if job_id and not is_over(told, job_id)
        for grant in [1 + sum(len(told.of(job_id, kind)) for kind in _GIVEN_BACK)]
        if grant <= _MOST_GRANTS and (job_id, grant) not in decided
    ]
    decided |= {(each.job_id, each.grant): each for each in wanted}
    return wanted


def is_over(told: Told, job_id: str) -> bool:
    """Whether the newest attempt of a job has ended."""
    newest = 1 + len(told.of(job_id, "job_requeued"))
    return any(end.attempt >= newest for end in told.of(job_id, "job_finished"))


def _granted(told: Told, job_id: str, grant: int, cluster: str) -> PlacementDecided:
    return PlacementDecided(
        job_id=job_id,
        attempt=1 + len(told.of(job_id, "job_requeued")),
        verdict=VERDICT_START,
        cluster=cluster,
        freq_ghz=2.1,
        walltime_s=600,
        grant=grant,
        node_names=["n[1-2]"],
        node_units=[1, 1],
    )


def _strange(requeued: Any) -> bool:
    return not set(requeued.failed_nodes) <= {"n1", "n2"}


def _labels(told: Object) -> Object:
    return told["metadata"].get("labels") or {}


def _is_bad_copy(server: MemoryApiServer, key: JobKey) -> bool:
    labels = _labels(server.objects[key])
    return COPY_OF in labels and key.name.startswith("bad-")


def _texts(rng: Random) -> Object:
    """Words of Coplace's, forged."""
    names = rng.sample(_NAMES, 2)
    return {name: rng.choice([*_FORGED, None]) for name in names}


EDITS: Final[Sequence[Callable[[Random], Object]]] = (
    lambda rng: {"metadata": {"annotations": _texts(rng)}},
    lambda rng: {"metadata": {"labels": _texts(rng)}},
    lambda rng: {"metadata": {"labels": {QUEUE_NAME: rng.choice(["coplace", "other", None])}}},
    lambda rng: {"metadata": {"finalizers": rng.choice([None, [], ["a"], [FINALIZER, "b"]])}},
    lambda rng: {"metadata": {"annotations": {"x": "y" * rng.choice([1, 200_000, 262_100])}}},
    lambda rng: {"spec": {"suspend": rng.random() < 0.5}},
    lambda rng: {"spec": {"parallelism": rng.choice([0, 1, 2, 3, 500, 2**31 - 1])}},
    lambda rng: {"spec": {"completions": rng.choice([None, 1, 2, 2**31 - 1])}},
    lambda rng: {"spec": {"activeDeadlineSeconds": rng.choice([None, 1, 600, 2**31 - 1])}},
    lambda rng: {"spec": {"template": {"metadata": {"labels": {GRANT: rng.choice("0123")}}}}},
    lambda rng: {"spec": {"template": {"spec": {"nodeSelector": {"a": rng.choice("xy")}}}}},
    lambda rng: {"spec": {"template": {"spec": {"nodeName": rng.choice(["n1", None])}}}},
    lambda rng: {"spec": {"template": {"spec": {"affinity": rng.choice(_AFFINITIES)}}}},
    lambda rng: {"spec": {"template": {"spec": {"overhead": {"cpu": rng.choice("019")}}}}},
    lambda rng: {"metadata": rng.choice([{}, {}, {"deletionTimestamp": EPOCH}])},
)  # fmt: skip
_MOVES: Final[Sequence[Callable[[Course], None]]] = (
    *(Course.edit, Course.edit, Course.edit, Course.odd, Course.odd, Course.odd, Course.copied),
    *(Course.pod, Course.node, Course.gap, Course.vanish, Course.restart),
)


async def play(objects: int, seed: int, a_round: int = 400) -> Course:
    """Mutate so many objects. Raises WrongError."""
    course = Course(seed)
    reconciler.log, node_reporter.log = course.watched, course.watched
    reconciler._RETRY_S = reconciler._REFUSED_RETRY_S = 0.0  # type: ignore[misc]
    began_s = time.monotonic()
    while course.mutated < objects:
        await course.round(min(a_round, objects - course.mutated))
        if course.rounds % 100 == 0:
            took_s = time.monotonic() - began_s
            print(f"{course.mutated} objects, {took_s:.0f} s, {resident_mib():.0f} MiB", flush=True)
    return course


def resident_mib() -> float:
    """What the process has held at most, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Attack, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    try:
        course = asyncio.run(play(told.records, told.seed))
    except WrongError as error:
        sys.exit(f"wrong: {error}")
    print(f"{course.mutated} objects in {course.rounds} rounds, {resident_mib():.0f} MiB: good")


if __name__ == "__main__":
    main()

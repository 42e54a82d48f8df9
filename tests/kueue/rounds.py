"""One round of Workloads through one queue, and what was seen of them."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Protocol

from lab.benchmarks.kubernetes.cluster import CallError, call
from services.kueue.adapters.api import RECORDS
from shared.kubernetes.api import ApiServer
from shared.kubernetes.objects import condition_of
from shared.kubernetes.reflector import reflect
from tests.kueue.cluster import API, KueueCluster
from tests.kueue.kinds import SHAPES, Drawn, drawn

_NAME: Final = re.compile(r"[a-z]+[0-9]+-[0-9]{5}")
_TRIES: Final = 60


class Admissions:
    """Watches Workloads: when each was admitted first, how often, and whether it has ended, by the
    name under which it was submitted."""

    def __init__(self) -> None:
        self.first_s: dict[str, float] = {}
        self.count: Counter[str] = Counter()
        self.versions: Counter[str] = Counter()
        self.finished: set[str] = set()
        self._admitted: dict[str, str] = {}

    async def run(self, cluster: KueueCluster) -> None:
        """Watch until cancelled."""
        async with cluster.client() as client:
            api = ApiServer(cluster.name, client)
            await reflect(api, f"{API}/workloads", "", self, lambda: None)

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Take all Workloads."""
        for each in found:
            self.changed(cluster, each)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Take a Workload that is new, or has changed."""
        name, status = name_in(found["metadata"]["name"]), found.get("status", {})
        self.versions[name] += 1
        if condition_of(status, "Finished"):
            self.finished.add(name)
        admitted = condition_of(status, "Admitted")
        at = str(admitted["lastTransitionTime"]) if admitted else ""
        if at and self._admitted.get(name) != at:
            self.first_s.setdefault(name, time.time())
            self.count[name] += 1
            self._admitted[name] = at

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Ignore a Workload that was deleted."""


def name_in(text: str) -> str:
    """Return the name of what was submitted, which is in that of its Workload."""
    found = _NAME.search(text)
    return found[0] if found else text


@dataclass
class Round:
    """What came of one round. Waits last until all pods of a Workload are ready, s. From each time
    to the other of `away`, s since 1970, nobody saw ends: of a copy nothing is left then but
    Kueue's word, unless its user created its pods."""

    queue: str
    began_s: float = 0.0
    submitted: dict[str, tuple[Drawn, float]] = field(default_factory=dict)
    admission_s: dict[str, float] = field(default_factory=dict)
    wait_s: dict[str, float] = field(default_factory=dict)
    makespan_s: float = 0.0
    cpu_ms: dict[str, float] = field(default_factory=dict)
    calls: dict[str, float] = field(default_factory=dict)
    versions: float = 0.0
    problems: list[str] = field(default_factory=list)
    away: list[tuple[float, float]] = field(default_factory=list)


class Watched(Protocol):
    """When pods of Workloads were ready and ended, by the name of the Workload and their uids."""

    @property
    def ready(self) -> Mapping[str, Mapping[str, str]]: ...
    @property
    def ended(self) -> Mapping[str, Mapping[str, str]]: ...
    @property
    def ready_s(self) -> Mapping[str, Mapping[str, float]]: ...
    @property
    def ended_s(self) -> Mapping[str, Mapping[str, float]]: ...


@dataclass
class Player:
    """Plays rounds at the API server to which users submit."""

    cluster: KueueCluster
    kubelets: Watched
    admissions: Admissions
    shapes: Sequence[tuple[int, int]] = SHAPES
    apps: Sequence[str] = ("",)

    async def submit(
        self, found: Round, name: str, jobs: int, rate: float, run_s: float, seed: int
    ) -> None:
        """Submit Workloads at a rate: the same for the same seed."""
        rng, found.began_s = Random(seed), time.time()
        async with self.cluster.client() as client:
            for number in range(jobs):
                named = f"{name}-{number:05}"
                each = drawn(rng, named, found.queue, run_s, self.shapes, self.apps)
                found.submitted[each.name] = (each, time.time())
                for path, body in each.objects:
                    await _created(client, path, body)
                await asyncio.sleep(max(0.0, found.began_s + (number + 1) / rate - time.time()))

    async def ended(self, found: Round, within_s: float) -> None:
        """Return when all have ended, and Coplace has let them go."""
        deadline_s = time.monotonic() + within_s
        while left := [name for name in found.submitted if name not in self.admissions.finished]:
            if time.monotonic() > deadline_s:
                found.problems.append(f"{len(left)} have not ended, such as {left[0]}")
                return
            await asyncio.sleep(0.2)
        found.makespan_s = max(_ends(self.kubelets, found), default=0.0) - found.began_s
        while kept := await self._kept(found):
            if time.monotonic() > deadline_s:
                found.problems.append(f"{len(kept)} are not let go, such as {kept[0]}")
                return
            await asyncio.sleep(0.2)

    async def _kept(self, found: Round) -> list[str]:
        told = await call(self.cluster, "GET", RECORDS)
        names = (name_in(str(each["spec"]["workload"]["name"])) for each in told["items"])
        return [name for name in names if name in found.submitted]

    async def play(
        self,
        queue: str,
        name: str,
        jobs: int,
        rate: float,
        run_s: float,
        seed: int,
        within_s: float,
    ) -> Round:
        """Play one round to its end."""
        found, cluster = Round(queue), self.cluster
        before, asked = cluster.cpu_s(), cluster.calls()
        await self.submit(found, name, jobs, rate, run_s, seed)
        await self.ended(found, within_s)
        used = {each: cpu_s - before.get(each, 0.0) for each, cpu_s in cluster.cpu_s().items()}
        found.cpu_ms = {each: cpu_s / jobs * 1e3 for each, cpu_s in used.items()}
        found.calls = {each: count / jobs for each, count in (cluster.calls() - asked).items()}
        found.versions = sum(self.admissions.versions[each] for each in found.submitted) / jobs
        self.judge(found)
        return found

    def judge(self, found: Round) -> None:
        """Note when each was admitted and was ready, and which did not run once."""
        for name, (each, since_s) in found.submitted.items():
            ready = self.kubelets.ready.get(name, {})
            if len(ready) != each.pods:
                found.problems.append(
                    f"{name}, a {each.kind}, ran {len(ready)} of {each.pods} pods"
                )
                continue
            found.wait_s[name] = max(self.kubelets.ready_s[name].values()) - since_s
            if name in self.admissions.first_s:
                found.admission_s[name] = self.admissions.first_s[name] - since_s


def _ends(kubelets: Watched, found: Round) -> list[float]:
    return [at for name in found.submitted for at in kubelets.ended_s.get(name, {}).values()]


async def _created(client: Any, path: str, body: Mapping[str, Any]) -> None:
    """Create an object, also while Kueue's webhooks do not answer."""
    for attempt in range(_TRIES):
        try:
            await call(client, "POST", path, body)
        except CallError as error:
            if "AlreadyExists" in str(error):
                return
            if "webhook" not in str(error) or attempt == _TRIES - 1:
                raise
            await asyncio.sleep(0.5)
        else:
            return

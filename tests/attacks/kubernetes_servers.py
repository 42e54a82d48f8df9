"""`make fuzz ADAPTER=kubernetes SERVERS=1`: users of a real API server edit and delete their Jobs
in every way that it takes; honest Jobs beside them run and end, every run that was granted has one
end, and memory stays flat. Records are what users write."""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED
from coplace.v1.placement_pb2 import PlacementDecided

from lab.benchmarks.kubernetes.cluster import CallError, RealCluster, call
from lab.benchmarks.kubernetes.kubelets import SimulatedKubelets
from services.kubernetes.adapters import reconciler
from services.kubernetes.adapters.api import JOBS, RECORDS, JobServer
from services.kubernetes.adapters.pods import PodWatcher
from services.kubernetes.adapters.reconciler import JobReconciler
from services.kubernetes.adapters.records import RecordWatcher
from services.kubernetes.model.names import FINALIZER, QUEUE_NAME
from shared.kubernetes.access import by_kubeconfig
from shared.kubernetes.api import PODS
from shared.kubernetes.connection import ApiConnection
from shared.kubernetes.names import GRANT
from shared.kubernetes.reflector import ObjectWatcher, reflect
from shared.process.clock import process_clock
from tests.attacks.kubernetes import EDITS, TERMS, Told, Watched, grants
from tests.attacks.slurm import resident_mib
from tests.support.kubernetes_api import suspended_job
from tests.support.snippets import REPOSITORY

_PATH: Final = "/apis/batch/v1/namespaces/physics/jobs"
_EDITORS: Final = 4
_WITHIN_S: Final = 300.0
_VERSION: Final = "v1.34.1"
_WARM_PART: Final = 0.3
# Honest Jobs that have completed are deleted so many rounds after they were submitted.
_KEPT_ROUNDS: Final = 5
# All facts are kept here, to be checked.
_MOST_GROWTH_MIB: Final = 64.0
_QUEUE: Final = f"{QUEUE_NAME}=coplace"


class ServerUnderAttack:
    """One cluster, its resource manager in this process, and users who know no better."""

    def __init__(
        self, cluster: RealCluster, admin: ApiConnection, api: JobServer, seed: int
    ) -> None:
        self._cluster, self._admin, self._api, self._rng = cluster, admin, api, Random(seed)
        self.told, self.watched, self.counts = Told(), Watched(), Counter[str]()
        self.good: list[str] = []
        self.warm_mib = 0.0
        self._decided: dict[tuple[str, int], PlacementDecided] = {}
        now_us = process_clock().now_us
        self.manager = JobReconciler({cluster.name: api}, self.told, TERMS, now_us)
        reconciler.log = self.watched

    async def play(self, edits: int) -> None:
        """Attack, then wait until what is honest has ended."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(each) for each in self._processes()]
            share = edits // _EDITORS
            await asyncio.gather(*(self._edit(number, share) for number in range(_EDITORS)))
            deadline_s = time.monotonic() + _WITHIN_S
            while True:
                if not (self.left() or self.wrong()) or time.monotonic() > deadline_s:
                    break
                await asyncio.sleep(1)
            for task in running:
                task.cancel()

    def left(self) -> list[str]:
        """Honest Jobs that have not completed."""
        ended = {
            job_id
            for job_id in self.told.by_job
            for end in self.told.of(job_id, "job_finished")
            if end.outcome == JOB_OUTCOME_COMPLETED and end.grant == 1 and end.cores == 2
        }
        return [name for name in self.good if not any(f"/{name}/" in each for each in ended)]

    def wrong(self) -> list[str]:
        """Runs that nobody granted, or whose ends are not one."""
        found = list[str]()
        for job_id in list(self.told.by_job):
            starts = self.told.of(job_id, "job_started")
            ends = [each.attempt for each in self.told.of(job_id, "job_finished")]
            found += [
                f"{job_id} was not granted: {each}"
                for each in starts
                if (job_id, each.grant) not in self._decided
            ]
            found += [
                f"{job_id} ended {ends.count(each.attempt)} times in attempt {each.attempt}"
                for each in starts
                if ends.count(each.attempt) != 1
            ]
        return found

    def _processes(self) -> list[Coroutine[Any, Any, None]]:
        def watched(path: str, selector: str, watcher: ObjectWatcher) -> Coroutine[Any, Any, None]:
            return reflect(self._api, path, selector, watcher, _nothing)

        return [
            watched(RECORDS, _QUEUE, RecordWatcher(self.manager)),
            watched(JOBS, _QUEUE, self.manager),
            watched(PODS, GRANT, PodWatcher(self.manager)),
            *(self.manager.work() for _ in range(4)),
            SimulatedKubelets(self._cluster, 0.5).run(),
            self._decide(),
        ]

    async def _decide(self) -> None:
        nodes = [f"{self._cluster.name}-0000", f"{self._cluster.name}-0001"]
        while True:
            wanted = grants(self.told, self._decided, lambda _: self._cluster.name)
            for each in wanted:
                is_good = any(f"/{name}/" in each.job_id for name in self.good)
                del each.node_names[:], each.node_units[:]
                each.node_names.extend(nodes[:1] if is_good else nodes)
            await self.manager.obey(wanted)
            await asyncio.sleep(0.2)

    async def _edit(self, editor: int, edits: int) -> None:
        for number in range(edits):
            if number == int(edits * _WARM_PART) and not self.warm_mib:
                self.warm_mib = resident_mib()
            round_, name = number // 100, f"bad-{editor}-{number // 25}"
            if number % 100 == 0:
                self.good.append(f"good-{editor}-{round_}")
                await self._submit(self.good[-1], 1)
            if number % 25 == 0:
                await self._submit(name, 2)
            await self._tried("PATCH", f"{_PATH}/{name}", self._rng.choice(EDITS)(self._rng))
            if number % 25 == 24:
                await self._delete(name)
            before = f"good-{editor}-{round_ - _KEPT_ROUNDS}"
            if number % 100 == 99 and before in self.good and before not in self.left():
                await self._delete(before)

    async def _delete(self, name: str) -> None:
        """Delete a Job; what others wait for before it goes is done, what Coplace waits for is not:
        so the server has no more Jobs at the end than before."""
        await self._tried("DELETE", f"{_PATH}/{name}", {})
        with suppress(CallError):
            found = await call(self._admin, "GET", f"{_PATH}/{name}", None)
            own = [each for each in found["metadata"].get("finalizers", ()) if each == FINALIZER]
            body = {"metadata": {"finalizers": own}}
            await call(self._admin, "PATCH", f"{_PATH}/{name}", body)

    async def _submit(self, name: str, pods: int) -> None:
        body = suspended_job(name, pods=pods)
        pod = body["spec"]["template"]["spec"]
        pod["restartPolicy"], pod["containers"][0]["image"] = "Never", "none"
        await self._tried("POST", _PATH, body)

    async def _tried(self, method: str, path: str, body: Any) -> None:
        try:
            await call(self._admin, method, path, body)
            self.counts[f"{method} taken"] += 1
        except CallError as error:
            self.counts[f"{method} {str(error).split(': ')[1][:3]}"] += 1


def _nothing() -> None:
    """Wait for nothing to be listed."""


async def attack(arguments: argparse.Namespace, folder: Path, stack: ExitStack) -> int:
    """Print what came of it; 1 where an honest Job did not complete, or something was amiss."""
    build = [str(REPOSITORY / "deploy" / "build-kubernetes.sh"), _VERSION]
    built = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True)
    programs = Path(built.stdout.strip())
    cluster = stack.enter_context(RealCluster("alpha", folder / "alpha", programs, True))
    await cluster.wait()
    await cluster.prepare(4, 64)
    found = by_kubeconfig(cluster.kubeconfig())
    began_s = time.monotonic()
    async with ApiConnection(found) as own, cluster.client() as admin:
        attacked = ServerUnderAttack(cluster, admin, JobServer("alpha", own), arguments.seed)
        await attacked.play(arguments.records)
    kinds: Callable[[str], int] = lambda kind: sum(  # noqa: E731
        len(attacked.told.of(job_id, kind)) for job_id in attacked.told.by_job
    )
    told = {kind: kinds(kind) for kind in ("job_started", "job_finished", "job_requeued")}
    grown_mib = resident_mib() - attacked.warm_mib
    print(f"{arguments.records} edits in {time.monotonic() - began_s:.0f} s: {attacked.counts}")
    unexpected = [*attacked.watched.unexpected, *attacked.told.wrong]
    print(f"published: {told}; unexpected: {unexpected[:3]}")
    print(f"honest Jobs: {len(attacked.good)}, not completed: {attacked.left()}")
    print(f"wrong: {attacked.wrong()[:5]}; grown by {grown_mib:.0f} MiB")
    is_wrong = attacked.left() or attacked.wrong() or unexpected
    return 1 if is_wrong or grown_mib > _MOST_GROWTH_MIB else 0


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="k8s-")))
        return asyncio.run(attack(arguments, folder, stack))


if __name__ == "__main__":
    sys.exit(main())

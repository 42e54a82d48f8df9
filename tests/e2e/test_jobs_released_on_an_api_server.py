"""Jobs are given back on a real API server with a real Job controller: each runs once."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from lab.benchmarks.kubernetes.cluster import RealCluster, call
from services.kubernetes.adapters.api import JOBS, RECORDS, JobServer
from services.kubernetes.adapters.connecting import connected
from services.kubernetes.adapters.queues import QueueReporter
from services.kubernetes.adapters.reconciler import JobReconciler
from services.kubernetes.model.facts import JobTerms
from services.kubernetes.model.jobs import JobKey
from services.kubernetes.model.names import FINALIZER, MANAGED_BY, QUEUE_NAME
from services.kubernetes.settings import KubernetesSettings, clusters_of
from shared.kubernetes.names import JOB_ID
from shared.kubernetes.objects import condition_of
from shared.process.clock import process_clock
from tests.helm.chart import ROOT
from tests.support.fated_api import Fate
from tests.support.kubernetes_api import suspended_job
from tests.unit.services.kubernetes.test_adversary import PlainCoplace

_VERSION: Final = "v1.34.1"
_NAMED: Final = "/apis/batch/v1/namespaces/physics/jobs"
_WAITING, _RUNNING, _MANAGED, _UNSEEN = 6, 2, 2, 2
_QUEUE: Final = f"{QUEUE_NAME}=coplace"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    build = [str(ROOT / "deploy/build-kubernetes.sh"), _VERSION]
    built = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True)
    folder = tmp_path_factory.mktemp("cluster") / "alpha"
    programs = Path(built.stdout.strip())
    with RealCluster("alpha", folder, programs, has_controller=True) as found:
        asyncio.run(_prepared(found))
        yield found


async def _prepared(cluster: RealCluster) -> None:
    await cluster.wait()
    await cluster.prepare(4, 8)


def clusters_file(cluster: RealCluster) -> Path:
    """The file of the process."""
    file = cluster.folder / "clusters.yaml"
    entry = {"name": "alpha", "node_model": "m", "pstates_ghz": [2.1], "idle_power_w": 1}
    more = {"peak_bandwidth_gbps": 1, "kubeconfig": str(cluster.kubeconfig())}
    file.write_text(yaml.safe_dump({"clusters": [{**entry, **more}]}))
    return file


class Process:
    """The resource manager, which sees what there is whenever it looks."""

    def __init__(self, api: JobServer, terms: JobTerms, coplace: PlainCoplace) -> None:
        self.api, self.coplace = api, coplace
        self.jobs = JobReconciler({"alpha": api}, coplace, terms, process_clock().now_us)
        self.read = 0

    async def look(self) -> None:
        """Look at all there is, until all is done."""
        for _ in range(4):
            self.jobs.replace_records("alpha", (await self.api.list(RECORDS, _QUEUE))[0])
            self.jobs.replace("alpha", (await self.api.list(JOBS, _QUEUE))[0])
            await self.jobs.work_off()
            await self.jobs.obey(self.coplace.decisions[self.read :])
            self.read = len(self.coplace.decisions)
            await asyncio.sleep(0.5)


@asynccontextmanager
async def process_at(cluster: RealCluster) -> AsyncIterator[Process]:
    file = clusters_file(cluster)
    own = KubernetesSettings(site="north", clusters_file=file)
    [entry] = clusters_of(file)
    async with connected([entry]) as apis:
        coplace = PlainCoplace(Fate())
        yield Process(apis["alpha"], own.terms([entry]), coplace)
        assert coplace.wrong == []


async def submit(cluster: RealCluster, name: str, **spec: Any) -> JobKey:
    body = suspended_job(name, **spec)
    body["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    body["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "alpha-0001"}
    [container] = body["spec"]["template"]["spec"]["containers"]
    container["image"] = "none"
    await call(cluster, "POST", _NAMED, body)
    return JobKey("alpha", "physics", name)


async def job_at(cluster: RealCluster, key: JobKey) -> Any:
    return await call(cluster, "GET", f"{_NAMED}/{key.name}")


async def pods_of(cluster: RealCluster, key: JobKey) -> Sequence[Mapping[str, Any]]:
    """The pods that its controller created, once it has had its time."""
    path = f"/api/v1/namespaces/physics/pods?labelSelector=job-name%3D{key.name}"
    found: Sequence[Mapping[str, Any]] = (await call(cluster, "GET", path))["items"]
    return found


async def released(cluster: RealCluster, *words: str) -> str:
    """What the command says."""
    command = [str(Path(sys.executable).with_name("coplace")), "kubernetes", "release", *words]
    command += ["--site", "north", "--clusters", str(clusters_file(cluster)), "--wait-s", "0"]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def _play(cluster: RealCluster) -> None:
    async with process_at(cluster) as process:
        waiting = [await submit(cluster, f"waits-{each}") for each in range(_WAITING)]
        running = [await submit(cluster, f"runs-{each}") for each in range(_RUNNING)]
        managed = [
            await submit(cluster, f"managed-{each}", managedBy=MANAGED_BY)
            for each in range(_MANAGED)
        ]
        await process.look()
        for key in running:
            job_id = (await job_at(cluster, key))["metadata"]["annotations"][JOB_ID]
            process.coplace.start(job_id, "alpha", 0)
        for decision in process.coplace.decisions:
            decision.node_names[:] = ["alpha-[0000-0001]"]
        await process.look()
        unseen = [await submit(cluster, f"unseen-{each}") for each in range(_UNSEEN)]
        reporter = QueueReporter({"alpha": process.api}, "north", "coplace", process.jobs.counts)
        await reporter.look()
        shown = await call(cluster, "GET", "/apis/coplace.io/v1/jobqueues/coplace")
        status = shown["status"]
        assert (status["waiting"], status["admitted"]) == (_WAITING + _MANAGED, _RUNNING)
        said = await released(cluster, "--all")
        count = _WAITING + _MANAGED + _UNSEEN
        assert f"{count} Jobs are Kubernetes'" in said
        assert f"{_RUNNING} run on" in said
        assert f"{_WAITING + _MANAGED} wait in Coplace" in said
        await process.look()
        for key in (*waiting, *unseen):
            job = await job_at(cluster, key)
            assert job["spec"]["suspend"] is False
            assert QUEUE_NAME not in job["metadata"]["labels"]
            assert FINALIZER not in job["metadata"].get("finalizers", [])
            [pod] = await pods_of(cluster, key)
            selector = pod["spec"]["nodeSelector"]
            assert selector == {"kubernetes.io/hostname": "alpha-0001"}, "as its user wrote"
        for key in running:
            job = await job_at(cluster, key)
            assert FINALIZER not in job["metadata"].get("finalizers", [])
            assert len(await pods_of(cluster, key)) == 1
        for key in managed:
            job = await job_at(cluster, key)
            assert condition_of(job["status"], "Failed"), job["status"]
            assert not await pods_of(cluster, key)
        assert process.coplace.ended.total() == _WAITING + _MANAGED
        records = (await process.api.list(RECORDS, _QUEUE))[0]
        assert sum("releasedAtUs" in each["status"] for each in records) == len(records)
        said = await released(cluster, "--all")
        assert said.splitlines() == ["0 Jobs are Kubernetes'", f"{_RUNNING} run on"]


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_each_job_that_is_given_back_runs_once(cluster: RealCluster) -> None:
    asyncio.run(_play(cluster))


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_a_record_keeps_what_a_start_writes_over(cluster: RealCluster) -> None:
    async def play() -> None:
        async with process_at(cluster) as process:
            key = await submit(cluster, "again", activeDeadlineSeconds=900)
            await process.look()
            job = await job_at(cluster, key)
            process.coplace.start(job["metadata"]["annotations"][JOB_ID], "alpha", 0)
            process.coplace.decisions[-1].node_names[:] = ["alpha-[0002-0003]"]
            await process.look()
            path = f"{_NAMED}/{key.name}"
            started = await job_at(cluster, key)
            assert "nodeSelector" not in started["spec"]["template"]["spec"]
            await call(cluster, "PATCH", path, {"spec": {"suspend": True}})
            await process.look()
            deadline_s = time.monotonic() + 120
            while process.coplace.attempts[job["metadata"]["annotations"][JOB_ID]] < 2:
                assert time.monotonic() < deadline_s, (await job_at(cluster, key))["status"]
                for pod in await pods_of(cluster, key):  # as its kubelet would end it
                    name = pod["metadata"]["name"]
                    path = f"/api/v1/namespaces/physics/pods/{name}?gracePeriodSeconds=0"
                    await call(cluster, "DELETE", path)
                await process.look()
            await released(cluster, job["metadata"]["annotations"][JOB_ID])
            await process.look()
            given = (await job_at(cluster, key))["spec"]
            assert (given["suspend"], given["activeDeadlineSeconds"]) == (False, 900)
            [pod] = await pods_of(cluster, key)
            assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "alpha-0001"}

    asyncio.run(play())


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_kubectl_coplace_releases_a_job_of_the_current_namespace(cluster: RealCluster) -> None:
    async def play() -> None:
        async with process_at(cluster) as process:
            key = await submit(cluster, "by-kubectl")
            await process.look()
            program = [sys.executable, "-c", "from cli.kubectl.cli import app; app()"]
            command = [*program, "release", key.name, "-n", "physics", "--wait-s", "0"]
            environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig())}
            done = await asyncio.to_thread(
                subprocess.run,
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert "1 Jobs are Kubernetes'" in done.stdout, done.stderr
            assert (await job_at(cluster, key))["spec"]["suspend"] is False
            other = await asyncio.to_thread(
                subprocess.run,
                [*program, "why", "no-such", "-n", "physics"],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert "namespace physics of alpha has no Job no-such" in other.stderr

    asyncio.run(play())

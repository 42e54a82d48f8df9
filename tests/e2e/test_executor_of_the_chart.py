"""An executor that its chart installs, beside the adapter that the other chart does: each asks its
own API servers, and the home cluster has no way into that of the executor. Nodes are simulated."""

import asyncio
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from lab.benchmarks.kubernetes.cluster import CallError, RealCluster, call
from services.kubernetes.model.names import MANAGED_BY
from tests.helm.chart import ROOT
from tests.kubernetes_jobs.installed import (
    EXECUTOR,
    EXECUTOR_AT_HOME,
    EXECUTOR_THERE,
    JOBS,
    SITE,
    InstalledAdapter,
    user_job,
)
from tests.kubernetes_jobs.kubelets import FOR_EVER, persistent
from tests.support.kubernetes_api import merged

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]

_VERSION: Final = "v1.34.1"
_NODES: Final = {"alpha": 2, "beta": 6}
_PLAIN: Final = 20
_JOBS: Final = 60
_KILLS: Final = 16
_ASSIGNMENTS: Final = f"/apis/coplace.io/v1/namespaces/{SITE}/jobassignments"
_REPORTED: Final = f"/apis/coplace.io/v1/namespaces/{SITE}/executornodes"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledAdapter]:
    build = [str(ROOT / "deploy/build-kubernetes.sh"), _VERSION]
    built = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True)
    folder, programs = tmp_path_factory.mktemp("installed"), Path(built.stdout.strip())
    with InstalledAdapter(folder, programs, _NODES, adapters=1, by_executor=True) as found:
        asyncio.run(_label(found.clusters))
        yield found


async def _label(clusters: Mapping[str, RealCluster]) -> None:
    """Label the nodes of beta; the home cluster knows of it soon."""
    for number in range(_NODES["beta"]):
        patch = {"metadata": {"labels": {"site": "beta"}}}
        await call(clusters["beta"], "PATCH", f"/api/v1/nodes/beta-{number:04}", patch)
    labels: list[str | None] = []
    while labels != ["beta"] * _NODES["beta"]:
        await asyncio.sleep(1)
        found = (await call(clusters["alpha"], "GET", _REPORTED))["items"]
        labels = [each["spec"]["node"]["metadata"]["labels"].get("site") for each in found]
    await asyncio.sleep(3)


def _away(name: str, runs_s: float | str = 2) -> Any:
    """A Job that finds its nodes, by their labels, where the executor is."""
    pod = {"template": {"spec": {"nodeSelector": {"site": "beta"}}}}
    return merged(user_job(name, "1", runs_s), {"spec": {"managedBy": MANAGED_BY, **pod}})


async def _until_nothing_is_assigned(installed: InstalledAdapter, within_s: float) -> None:
    deadline_s = time.monotonic() + within_s
    while left := (await call(installed.clusters["alpha"], "GET", _ASSIGNMENTS))["items"]:
        assert time.monotonic() < deadline_s, left
        await asyncio.sleep(0.5)


def test_jobs_run_where_the_executor_is_and_are_charged_what_their_pods_ran(
    installed: InstalledAdapter,
) -> None:
    names = [f"plain-{number:02}" for number in range(_PLAIN)]

    async def play() -> None:
        await installed.submit(*(_away(name) for name in names))
        await installed.complete(*names, within_s=180)
        await _until_nothing_is_assigned(installed, 60)

    asyncio.run(play())
    _ran_once(installed, names)


def test_a_job_that_is_deleted_at_home_ends_where_the_executor_is(
    installed: InstalledAdapter,
) -> None:
    own = installed.kubelets["beta"]

    async def play() -> None:
        await installed.submit(_away("deleted", FOR_EVER))
        deadline_s = time.monotonic() + 60
        while not own.ready.get("deleted"):
            assert time.monotonic() < deadline_s
            await asyncio.sleep(0.2)
        await asyncio.sleep(3)
        await call(installed.clusters["alpha"], "DELETE", f"{JOBS}/deleted")
        await _until_nothing_is_assigned(installed, 60)
        found = (await call(installed.clusters["beta"], "GET", "/api/v1/pods"))["items"]
        left = [each for each in found if each["metadata"]["name"].startswith("deleted-")]
        assert not left

    asyncio.run(play())
    time.sleep(5)
    [charged_s] = installed.charges()["deleted"]
    assert 2 <= charged_s < 30


def test_its_metrics_say_what_it_runs_and_that_nobody_is_silent(
    installed: InstalledAdapter,
) -> None:
    found = dict(line.rsplit(" ", 1) for line in installed.executor_metrics() if line[0] != "#")
    copies = {name: float(told) for name, told in found.items() if "_kubernetes_copies{" in name}
    assert len(copies) > 3
    assert not any(copies.values())
    silences = {name: float(told) for name, told in found.items() if "_silence_seconds{" in name}
    assert {'cluster="home",objects="jobassignments"', 'cluster="beta",objects="jobs"'} <= {
        name.partition("{")[2].rstrip("}") for name in silences
    }
    assert max(silences.values()) < 120


def test_the_executor_asks_for_nothing_that_the_charts_give_it_no_right_to(
    installed: InstalledAdapter,
) -> None:
    for name, account in (("alpha", EXECUTOR_AT_HOME), ("beta", EXECUTOR_THERE)):
        requests = installed.clusters[name].requests()
        asked = [each for each in requests if each["user"]["username"] == account]
        assert len(asked) > 50
        refused = {each["requestURI"] for each in asked if each["responseStatus"]["code"] == 403}
        assert not refused


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/apis/batch/v1/jobs"),
        ("GET", "/apis/coplace.io/v1/jobrecords"),
        ("GET", "/apis/coplace.io/v1/jobassignments"),
        ("GET", f"/api/v1/namespaces/{SITE}/secrets"),
        ("GET", "/api/v1/nodes"),
        ("POST", _ASSIGNMENTS),
        ("PATCH", f"{_ASSIGNMENTS}/physics.any"),
        ("DELETE", f"{_ASSIGNMENTS}/physics.any"),
    ],
)
def test_whoever_has_the_account_of_an_executor_may_do_nothing_else_at_home(
    installed: InstalledAdapter, method: str, path: str
) -> None:
    token = installed.executor_at("home").read_text().split("token: ")[1].split()[0]

    async def ask() -> None:
        async with installed.clusters["alpha"].client(token) as client:
            await call(client, method, path, {} if method != "GET" else None)

    with pytest.raises(CallError, match=": 403 "):
        asyncio.run(ask())


def test_jobs_run_where_the_executor_is_while_all_is_killed(installed: InstalledAdapter) -> None:
    """Adapter, executor and both API servers are killed (kill -9) at random moments."""
    rng = Random(1)
    names = [f"kill-{number:02}" for number in range(_JOBS)]

    async def play() -> None:
        async with installed.clusters["alpha"].client() as client:
            for name in names:
                await persistent(client, "POST", JOBS, _away(name, rng.choice((1, 3, 6))))
        for _ in range(_KILLS):
            await asyncio.sleep(rng.uniform(0.5, 4))
            who = rng.choice((EXECUTOR, EXECUTOR, *installed.names, "alpha", "beta"))
            if who in installed.clusters:
                await asyncio.to_thread(installed.clusters[who].restart_api)
            elif installed.servers.pid(who):
                await asyncio.to_thread(installed.servers.kill, who)
        await asyncio.sleep(3)  # until the last one serves
        await installed.complete(*names, within_s=300)
        await _until_nothing_is_assigned(installed, 60)

    asyncio.run(play())
    _ran_once(installed, names)
    creates = Counter(_created(installed))
    assert creates == dict.fromkeys(creates, 1)
    assert len(creates) > _JOBS


def _ran_once(installed: InstalledAdapter, names: Sequence[str]) -> None:
    """By the nodes, each had one pod, and is charged for how long that ran."""
    own = installed.kubelets["beta"]
    assert {name: len(own.ready[name]) for name in names} == dict.fromkeys(names, 1)
    assert not set(names) & installed.kubelets["alpha"].begun_s.keys()
    time.sleep(10)  # prices follow ends
    charges = installed.charges()
    assert {name: charges.get(name) for name in names} == {n: [own.run_s(n)] for n in names}


def _created(installed: InstalledAdapter) -> Iterator[str]:
    """The names of the Jobs that the executor created in its own cluster."""
    for each in installed.clusters["beta"].requests():
        is_its = each["user"]["username"] == EXECUTOR_THERE and each["verb"] == "create"
        if is_its and each["responseStatus"]["code"] < 300:
            yield each["requestObject"]["metadata"]["name"]


def test_what_runs_there_goes_on_when_the_release_is_uninstalled(
    installed: InstalledAdapter,
) -> None:
    """The last test: nobody starts Jobs behind it."""
    own, names = installed.kubelets["beta"], [f"out-{number}" for number in range(4)]

    async def begin() -> None:
        await installed.submit(*(_away(name, FOR_EVER) for name in names))
        deadline_s = time.monotonic() + 60
        while not all(own.ready.get(name) for name in names):
            assert time.monotonic() < deadline_s
            await asyncio.sleep(0.2)
        await asyncio.sleep(3)

    async def end() -> None:
        jobs: list[Any] = []
        own.end(names)
        deadline_s = time.monotonic() + 60
        while not jobs or not all((each["status"].get("succeeded")) for each in jobs):
            assert time.monotonic() < deadline_s, jobs
            await asyncio.sleep(0.5)
            found = (await call(installed.clusters["beta"], "GET", JOBS))["items"]
            jobs = [each for each in found if each["metadata"]["name"].startswith("out-")]
        assert not any(each["metadata"].get("finalizers") for each in jobs)
        assert len(jobs) == len(names)

    asyncio.run(begin())
    installed.uninstall()
    assert "run on" in installed.hooks[0]
    asyncio.run(end())
    assert {name: len(own.ready[name]) for name in names} == dict.fromkeys(names, 1)

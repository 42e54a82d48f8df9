"""The chart's policy on a real API server: users write what is theirs, and Coplace the rest."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from lab.benchmarks.kubernetes.cluster import MANAGER, CallError, RealCluster, call
from shared.kubernetes.connection import ApiConnection
from tests.helm.chart import KUBERNETES_JOBS, ROOT, render
from tests.support.kubernetes_api import merged, suspended_job

_VERSION: Final = "v1.34.1"
_JOBS: Final = "/apis/batch/v1/namespaces/physics/jobs"
_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
_TOLD: Final = "coplace.io/told"
_WITHIN_S: Final = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    build = [str(ROOT / "deploy/build-kubernetes.sh"), _VERSION]
    built = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True)
    folder = tmp_path_factory.mktemp("cluster") / "alpha"
    with RealCluster("alpha", folder, Path(built.stdout.strip())) as found:
        asyncio.run(_prepare(found))
        yield found


async def _prepare(cluster: RealCluster) -> None:
    await cluster.wait()
    await cluster.prepare(1, 8)
    accounts = f"kubernetes.admission.otherAccounts={{{MANAGER}}}"
    for each in render(KUBERNETES_JOBS, "--set", accounts):
        if each["kind"] == "ValidatingAdmissionPolicy":
            await call(cluster, "POST", f"{_POLICIES}ies", each)
        if each["kind"] == "ValidatingAdmissionPolicyBinding":
            await call(cluster, "POST", f"{_POLICIES}ybindings", each)
    deadline_s = time.monotonic() + _WITHIN_S
    while "is unknown" not in await refusal(cluster, "POST", _JOBS, job(queue="nobody")):
        assert time.monotonic() < deadline_s, "the policy has no effect"
        await asyncio.sleep(0.5)


def job(name: str = "lu", queue: str = "coplace", **patch: Any) -> Any:
    body = suspended_job(name)
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["image"] = "none"
    body["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    body["metadata"]["labels"]["coplace.io/queue-name"] = queue
    return merged(body, patch)


async def refusal(of: RealCluster | ApiConnection, method: str, path: str, body: Any) -> str:
    """Why a request is refused; empty where it is not. Nothing that is created stays."""
    try:
        await call(of, method, path, body)
    except CallError as error:
        return str(error)
    if method == "POST":
        with suppress(CallError):
            await call(of, "DELETE", f"{path}/{body['metadata']['name']}")
    return ""


def by_coplace(cluster: RealCluster) -> ApiConnection:
    return cluster.client("manager")


_OWN: Final[dict[str, dict[str, Any]]] = {
    "annotations of coplace.io": {"metadata": {"annotations": {"coplace.io/outcome": "x"}}},
    "labels of coplace.io that say what became": {
        "metadata": {"labels": {"coplace.io/grant": "1"}}
    },
    "labels of coplace.io that say what pods": {
        "spec": {"template": {"metadata": {"labels": {"coplace.io/grant": "1"}}}}
    },
    "the finalizer": {"metadata": {"finalizers": [_TOLD]}},
}


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("words", "patch"),
    [
        (
            "coplace.io/queue-name is one of coplace",
            {"metadata": {"labels": {"coplace.io/queue-name": "nobody"}}},
        ),
        ("spec.suspend must be true", {"spec": {"suspend": False}}),
        ("spec.suspend must be true", {"spec": {"suspend": None}}),
        *_OWN.items(),
    ],
)
def test_a_job_that_is_not_as_it_must_be_is_refused_when_it_is_created(
    cluster: RealCluster, words: str, patch: dict[str, Any]
) -> None:
    assert words in asyncio.run(refusal(cluster, "POST", _JOBS, job("wrong", **patch)))


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_a_user_changes_what_is_theirs_and_coplace_the_rest(cluster: RealCluster) -> None:
    async def play() -> None:
        path = f"{_JOBS}/mine"
        await call(cluster, "POST", _JOBS, job("mine"))
        theirs = {"metadata": {"labels": {"coplace.io/app": "lu.C"}}}
        assert not await refusal(cluster, "PATCH", path, theirs)
        assert "spec.suspend" in await refusal(cluster, "PATCH", path, {"spec": {"suspend": False}})
        async with by_coplace(cluster) as coplace:
            taken = {"metadata": {"finalizers": [_TOLD], "annotations": {"coplace.io/claim": "a"}}}
            assert not await refusal(coplace, "PATCH", path, taken)
            assert "the finalizer" in await refusal(
                cluster, "PATCH", path, {"metadata": {"finalizers": None}}
            )
            changed = {"metadata": {"annotations": {"coplace.io/claim": "b"}}}
            assert "annotations of" in await refusal(cluster, "PATCH", path, changed)
            assert not await refusal(coplace, "PATCH", path, {"spec": {"suspend": False}})
            assert not await refusal(cluster, "PATCH", path, {"metadata": {"labels": {"a": "b"}}})

    asyncio.run(play())


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_a_job_of_no_queue_is_nobodys_business(cluster: RealCluster) -> None:
    alone = job("alone", metadata={"labels": {"coplace.io/queue-name": None}})
    free = merged(alone, {"spec": {"suspend": False}})
    assert asyncio.run(refusal(cluster, "POST", _JOBS, free)) == ""

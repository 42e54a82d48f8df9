"""The chart on a real API server: helm installs it, and a namespace for restricted pods takes each
of its pods. No node runs them."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from lab.benchmarks.kubernetes.cluster import RealCluster, call
from tests.helm.chart import CHART, FIRST_TRY, ROOT, program

_VERSION: Final = "v1.34.1"
_NAMESPACE: Final = "region"
_RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}
# What is off unless it is wanted.
_WANTED: Final = (
    "services.planner.enabled=true,services.rest.enabled=true,services.archive.enabled=true,"
    "services.archive.claim=files,services.history.enabled=true,services.history.claim=rows"
)
_KINDS: Final = ("deployments", "statefulsets")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    build = [str(ROOT / "deploy/build-kubernetes.sh"), _VERSION]
    built = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True)
    folder = tmp_path_factory.mktemp("cluster") / "alpha"
    with RealCluster("alpha", folder, Path(built.stdout.strip())) as found:
        asyncio.run(found.wait())
        yield found


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_a_real_api_server_takes_the_chart_and_every_pod_of_it(cluster: RealCluster) -> None:
    metadata = {"name": _NAMESPACE, "labels": _RESTRICTED}
    asyncio.run(call(cluster, "POST", "/api/v1/namespaces", {"metadata": metadata}))
    install = [program(), "install", "region", str(CHART), "--values", str(FIRST_TRY)]
    where = ["--namespace", _NAMESPACE, "--kubeconfig", str(cluster.kubeconfig("admin"))]
    words = [*install, *where, "--set", _WANTED, "--no-hooks"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    taken = asyncio.run(_pods_taken(cluster))
    assert {"region-rest", "region-archive", "region-history", "region-placement"} <= taken
    assert len(taken) > 14


async def _pods_taken(cluster: RealCluster) -> set[str]:
    """The names of what the server holds, each of whose pods it would take too."""
    found = set[str]()
    async with cluster.client() as client:
        for kind in _KINDS:
            path = f"/apis/apps/v1/namespaces/{_NAMESPACE}/{kind}"
            for each in (await call(client, "GET", path))["items"]:
                await _require_taken(client, each)
                found.add(each["metadata"]["name"])
    return found


async def _require_taken(client: Any, owner: Any) -> None:
    """Raise CallError unless a pod of it would be taken."""
    name, template = owner["metadata"]["name"], owner["spec"]["template"]
    claims = [each["metadata"]["name"] for each in owner["spec"].get("volumeClaimTemplates", ())]
    claimed = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    volumes = [*template["spec"].get("volumes", ()), *claimed]
    pod = {
        "metadata": {**template["metadata"], "name": name},
        "spec": {**template["spec"], "volumes": volumes},
    }
    await call(client, "POST", f"/api/v1/namespaces/{_NAMESPACE}/pods?dryRun=All", pod)

"""What the chart renders, applied twice by the server's side to a real API server: the second time
nothing differs."""

import asyncio
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson
import pytest

from lab.benchmarks.kubernetes.cluster import CallError, RealCluster, call
from shared.kubernetes.connection import ApiConnection
from tests.helm.chart import EXAMPLES, KUBERNETES_JOBS, ROOT, Document, render

_VERSION: Final = "v1.34.1"
_APPLY: Final = "application/apply-patch+yaml"
_PATIENCE: Final = aiohttp.ClientTimeout(total=60)
# Amounts and variables that an API server would write otherwise, or refuse to have twice.
_ADDED: Final = (
    *("--set", "services.ingest.resources.limits.cpu=2000m,env.COPLACE_LOG_LEVEL=debug"),
    *("--set", "services.ingest.env.COPLACE_LOG_LEVEL=info,podLabels.team=hpc"),
    *("--set", "services.ingest.service.type=NodePort,kubernetes.nodeSelector.pool=fast"),
    *("--set-json", 'extraVolumes=[{"name":"more","emptyDir":{"sizeLimit":"1024Mi"}}]'),
    *("--set-json", 'extraVolumeMounts=[{"name":"more","mountPath":"/more"}]'),
    *("--set-json", 'tolerations=[{"key":"batch","operator":"Exists"}]'),
)
CASES: Final = {path.stem: (path, ()) for path in EXAMPLES} | {"added": (KUBERNETES_JOBS, _ADDED)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    build = [str(ROOT / "deploy/build-kubernetes.sh"), _VERSION]
    built = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True)
    folder = tmp_path_factory.mktemp("cluster") / "alpha"
    with RealCluster("alpha", folder, Path(built.stdout.strip())) as found:
        asyncio.run(found.wait())
        yield found


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES)
def test_two_server_side_applies_have_no_difference(cluster: RealCluster, case: str) -> None:
    values, more = CASES[case]
    namespace = f"{case}-twice"

    async def play() -> None:
        await call(cluster, "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        documents = render(values, "--namespace", namespace, *more)
        async with cluster.client() as client:
            kinds = await _paths(client)
            own = [each for each in documents if (each["apiVersion"], each["kind"]) in kinds]
            assert len(own) > 20
            first, second = [
                [await _applied(client, kinds, namespace, each) for each in own] for _ in range(2)
            ]
        for one, other in zip(first, second, strict=True):
            assert _content(one) == _content(other)
            # Of a kind the server itself writes the status.
            if one["kind"] != "CustomResourceDefinition":
                versions = {each["metadata"]["resourceVersion"] for each in (one, other)}
                assert len(versions) == 1, one["metadata"]["name"]

    asyncio.run(play())


def _content(found: Mapping[str, Any]) -> Mapping[str, Any]:
    about = {
        k: v for k, v in found["metadata"].items() if k not in ("managedFields", "resourceVersion")
    }
    return {**{k: v for k, v in found.items() if k != "status"}, "metadata": about}


async def _paths(client: ApiConnection) -> Mapping[tuple[str, str], tuple[str, bool]]:
    """Where objects of each kind are, and whether in a namespace."""
    groups = (await call(client, "GET", "/apis"))["groups"]
    versions = ["v1", *(each["groupVersion"] for group in groups for each in group["versions"])]
    found = {}
    for version in versions:
        root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        for each in (await call(client, "GET", root))["resources"]:
            if "/" not in each["name"]:
                found[version, each["kind"]] = (f"{root}/%s{each['name']}", each["namespaced"])
    return found


async def _applied(
    client: ApiConnection,
    kinds: Mapping[tuple[str, str], tuple[str, bool]],
    namespace: str,
    document: Document,
) -> Mapping[str, Any]:
    """Return what the server has after an apply. Raises CallError."""
    path, is_namespaced = kinds[document["apiVersion"], document["kind"]]
    own = document["metadata"].get("namespace", namespace)
    where = path % (f"namespaces/{own}/" if is_namespaced else "")
    asked = client.asked(
        "PATCH",
        f"{where}/{document['metadata']['name']}",
        query={"fieldManager": "test", "fieldValidation": "Strict"},
        body=document,
        content_type=_APPLY,
        timeout=_PATIENCE,
    )
    async with asked as answer:
        told = await answer.read()
        if answer.status >= 400:
            raise CallError(f"{document['kind']} {document['metadata']['name']}: {told[:800]!r}")
        found: Mapping[str, Any] = orjson.loads(told)
        return found

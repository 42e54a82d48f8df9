"""The resource manager of Kubernetes may do what it does, and nothing else."""

from typing import Any

import pytest
import yaml

from services.kubernetes.settings import clusters_of
from tests.helm.chart import FIRST_TRY, KUBERNETES_JOBS, refusal, render

ONE = (
    "--set",
    "kubernetes.enabled=true,kubernetes.site=north",
    "--set-json",
    'kubernetes.clusters=[{"name":"alpha","node_model":"g","pstates_ghz":[3.1],'
    '"idle_power_w":110,"peak_bandwidth_gbps":140}]',
)


def of_kind(kind: str, *arguments: str) -> Any:
    documents = render(FIRST_TRY, *arguments) if arguments else render(KUBERNETES_JOBS)
    name = "region-kubernetes"
    [found] = [
        each
        for each in documents
        if each["kind"] == kind and each["metadata"]["name"].endswith(name)
    ]
    return found


def verbs(*arguments: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for rule in of_kind("ClusterRole", *arguments)["rules"]:
        for resource in rule["resources"]:
            found.setdefault(resource, set()).update(rule["verbs"])
    return found


def test_with_one_cluster_it_creates_and_deletes_no_job_and_with_several_copies() -> None:
    assert verbs(*ONE) == {
        "jobs": {"get", "list", "watch", "patch"},
        "pods": {"list", "watch"},
        "nodes": {"list", "watch"},
        "events": {"create"},
    }
    assert verbs()["jobs"] == {"get", "list", "watch", "patch", "create", "delete"}


def test_it_reads_the_clusters_that_the_values_name(tmp_path: Any) -> None:
    file = tmp_path / "clusters.yaml"
    file.write_text(of_kind("ConfigMap")["data"]["clusters.yaml"])
    assert [each.name for each in clusters_of(file)] == ["alpha", "beta"]
    assert yaml.safe_load(file.read_text())


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (("kubernetes.enabled=true",), "kubernetes.site is missing"),
        (("kubernetes.enabled=true", "kubernetes.site=north"), "kubernetes.clusters is missing"),
        (("kubernetes.clusters[0].nodes=4",), "nodes"),
    ],
)
def test_what_cannot_work_is_refused(sets: tuple[str, ...], words: str) -> None:
    assert words in refusal(*sets, values=FIRST_TRY)

"""The adapter of Kueue may do what it does, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from services.kueue.settings import clusters_of
from shared.kueue.names import API_VERSION
from tests.helm.chart import FIRST_TRY, KUEUE, refusal, render


def of_kind(kind: str) -> Any:
    [found] = [
        each
        for each in render(KUEUE)
        if each["kind"] == kind and each["metadata"]["name"].endswith("region-kueue")
    ]
    return found


def test_it_writes_workloads_and_the_words_on_checks_alone() -> None:
    found: dict[str, set[str]] = {}
    for rule in of_kind("ClusterRole")["rules"]:
        for resource in rule["resources"]:
            found.setdefault(resource, set()).update(rule["verbs"])
            assert rule["apiGroups"] in ([API_VERSION.partition("/")[0]], ["coplace.io"], [""])
    assert found == {
        "workloads": {"get", "list", "watch", "patch"},
        "workloads/status": {"patch"},
        "admissionchecks/status": {"patch"},
        "admissionchecks": {"list", "watch"},
        "workloadrecords": {"get", "list", "watch", "create", "patch", "delete"},
        "multikueueconfigs": {"list", "watch"},
        "resourceflavors": {"list", "watch"},
        "pods": {"list", "watch"},
        "nodes": {"list", "watch"},
        "events": {"create"},
    }


def test_it_reads_the_clusters_and_managers_that_the_values_name(tmp_path: Path) -> None:
    file = tmp_path / "clusters.yaml"
    file.write_text(of_kind("ConfigMap")["data"]["clusters.yaml"])
    found = clusters_of(file)
    assert [each.name for each in found.servers] == ["alpha", "beta", "manager"]
    assert [each.name for each in found.managers] == ["manager"]


def test_its_process_is_told_where_it_is() -> None:
    [container] = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "-m", "services.kueue"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env["COPLACE_KUEUE_SITE"] == "north"
    assert env["COPLACE_KUEUE_CLUSTERS_FILE"] == "/etc/coplace/clusters/clusters.yaml"


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (("kueue.enabled=true",), "kueue.site is missing"),
        (("kueue.enabled=true", "kueue.site=north"), "kueue.clusters is missing"),
        (("kueue.managers[0].nodes=4",), "nodes"),
    ],
)
def test_what_cannot_work_is_refused(sets: tuple[str, ...], words: str) -> None:
    assert words in refusal(*sets, values=FIRST_TRY)


def test_it_does_not_fit_a_hub() -> None:
    assert "kueue.enabled does not fit role: hub" in refusal("role=hub", values=KUEUE)


def test_a_second_process_of_the_same_account_watches_the_lease() -> None:
    [found] = [
        each
        for each in render(KUEUE)
        if each["metadata"]["name"] == "region-kueue-silence" and each["kind"] == "Deployment"
    ]
    pod = found["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "region-kueue"
    [container] = pod["containers"]
    assert container["command"] == ["python", "-m", "services.kueue.silence"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env["COPLACE_KUEUE_SILENCE_AFTER_S"] == "300"
    [own] = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"]
    told = {each["name"]: each.get("value") for each in own["env"]}
    assert told["COPLACE_KUEUE_LEASE_NAMESPACE"] == env["COPLACE_KUEUE_LEASE_NAMESPACE"]


def test_it_renews_one_lease_alone() -> None:
    [role] = [
        each
        for each in render(KUEUE)
        if each["kind"] == "Role" and each["metadata"]["name"] == "region-kueue-lease"
    ]
    create, own = role["rules"]
    assert create["verbs"] == ["create"]
    assert own["resourceNames"] == ["coplace-kueue"]
    assert own["verbs"] == ["get", "patch"]


def test_without_it_workloads_wait_while_coplace_is_silent() -> None:
    without = render(KUEUE, "--set", "kueue.silence.enabled=false")
    assert not [each for each in without if "silence" in each["metadata"]["name"]]


def test_of_two_processes_one_leads_by_a_lease_of_its_own() -> None:
    documents = render(KUEUE, "--set", "kueue.replicas=2")
    [manager] = [
        each
        for each in documents
        if each["kind"] == "StatefulSet" and each["metadata"]["name"] == "region-kueue"
    ]
    [container] = manager["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert manager["spec"]["replicas"] == 2
    assert env["COPLACE_KUEUE_LEADER_LEASE"] == "default/region-kueue"
    leases = {
        name
        for each in documents
        if each["kind"] == "Role"
        for rule in each["rules"]
        for name in rule.get("resourceNames", ())
    }
    # That which says that Coplace is there is another one.
    assert leases == {"region-kueue", "coplace-kueue"}

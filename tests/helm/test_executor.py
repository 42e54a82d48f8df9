"""An executor may fetch what is assigned to it and report, and in its own cluster run it."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from services.kubernetes.executor.settings import ExecutorSettings
from services.kubernetes.model.assignments import (
    PLURAL,
    assignment_body,
    claimed,
    refused,
    removed,
    reported,
)
from services.kubernetes.model.executor_nodes import PLURAL as NODES
from services.kubernetes.model.executor_nodes import node_body, node_spec
from services.kubernetes.model.jobs import JobKey
from services.kubernetes.model.run_pods import PodDisruption
from services.kubernetes.settings import clusters_of
from shared.kubernetes.pods import RunPod
from shared.kubernetes.units import PODS
from tests.helm.chart import (
    EXECUTOR_CHART,
    KUBERNETES_EXECUTOR,
    KUBERNETES_JOBS,
    OPERATORS,
    VERSIONS,
    helm,
    render,
    render_executor,
    validate,
)
from tests.helm.test_kubernetes import of_kind, strict
from tests.support.kubernetes_api import suspended_job
from tests.unit.services.kubernetes.objects import job
from tests.unit.shared.kubernetes.objects import node

_SETS = ("cluster=beta", "home.namespace=site-beta", "home.kubeconfigSecret=home")


def one(documents: tuple[Any, ...], kind: str, name: str) -> Any:
    [found] = [r for r in documents if r["kind"] == kind and r["metadata"]["name"] == name]
    return found


def rights(role: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for rule in role["rules"]:
        for resource in rule["resources"]:
            name = "/".join([resource, *rule.get("resourceNames", ())])
            found.setdefault(name, set()).update(rule["verbs"])
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_api_servers_take_what_its_chart_installs(version: str) -> None:
    for document in render_executor(*_SETS, "kueue.enabled=true", "namespaces={physics}"):
        validate(document, version)


def test_at_home_it_may_fetch_what_is_assigned_to_it_and_report() -> None:
    role = one(render(KUBERNETES_EXECUTOR), "Role", "executor")
    assert role["metadata"]["namespace"] == "site-beta"
    assert rights(role) == {
        "jobassignments": {"get", "list", "watch"},
        "jobassignments/status": {"patch"},
        "executornodes": {"list", "create", "patch", "delete"},
        "leases": {"create"},
        "leases/executor": {"patch"},
    }
    binding = one(render(KUBERNETES_EXECUTOR), "RoleBinding", "executor")
    [subject] = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == ("executor", "site-beta")


def test_the_adapter_may_assign_in_the_namespace_of_an_executor_alone() -> None:
    documents = render(KUBERNETES_EXECUTOR)
    role = one(documents, "Role", "coplace")
    assert role["metadata"]["namespace"] == "site-beta"
    assert rights(role) == {
        "jobassignments": {"get", "list", "watch", "create", "patch", "delete"},
        "executornodes": {"list", "watch"},
        "leases/executor": {"get"},
    }
    of_all = [rights(each) for each in documents if each["kind"] == "ClusterRole"]
    assert not any(PLURAL in each for each in of_all)


def test_the_hook_may_give_assignments_back_before_the_release_goes_and_after() -> None:
    for kind in ("Role", "RoleBinding"):
        found = one(render(KUBERNETES_EXECUTOR), kind, "coplace-release")["metadata"]
        hooks = found["annotations"]["helm.sh/hook"]
        assert (found["namespace"], hooks) == ("site-beta", "pre-delete,post-delete")
    [subject] = one(render(KUBERNETES_EXECUTOR), "RoleBinding", "coplace-release")["subjects"]
    assert subject["name"] == "region-kubernetes-release"


def test_in_its_own_cluster_it_may_run_jobs_and_see_nodes() -> None:
    documents = render_executor(*_SETS)
    sees = one(documents, "ClusterRole", "default-beta-coplace-executor")
    assert rights(sees) == {name: {"list", "watch"} for name in ("jobs", "pods", "nodes")}
    runs = one(documents, "ClusterRole", "default-beta-coplace-executor-run")
    assert rights(runs) == {"jobs": {"get", "create", "patch", "delete"}}
    assert "RoleBinding" not in {each["kind"] for each in documents}
    one(documents, "ClusterRoleBinding", "default-beta-coplace-executor-run")


def test_where_it_follows_kueue_it_may_answer_and_end_workloads_of_its_jobs() -> None:
    documents = render_executor(*_SETS, "kueue.enabled=true", "namespaces={physics}")
    sees = rights(one(documents, "ClusterRole", "default-beta-coplace-executor"))
    assert sees["workloads"] == {"list", "watch"}
    assert sees["admissionchecks/coplace-granted"] == {"get"}
    assert sees["admissionchecks/status/coplace-granted"] == {"patch"}
    runs = rights(one(documents, "ClusterRole", "default-beta-coplace-executor-run"))
    assert (runs["workloads"], runs["workloads/status"]) == ({"get", "patch"}, {"patch"})


def test_it_may_run_jobs_of_the_namespaces_that_its_site_names_alone() -> None:
    documents = render_executor(*_SETS, "namespaces={physics,chemistry}")
    bound = [each["metadata"]["namespace"] for each in documents if each["kind"] == "RoleBinding"]
    assert bound == ["physics", "chemistry"]
    of_all = [each for each in documents if each["kind"] == "ClusterRoleBinding"]
    assert [each["roleRef"]["name"] for each in of_all] == ["default-beta-coplace-executor"]


@pytest.mark.parametrize("kueue", [False, True])
def test_its_process_reads_the_settings_that_the_chart_gives_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, kueue: bool
) -> None:
    more = ("kueue.enabled=true",) if kueue else ()
    [manager] = [each for each in render_executor(*_SETS, *more) if each["kind"] == "StatefulSet"]
    [container] = manager["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "-m", "services.kubernetes.executor"]
    for each in container["env"]:
        monkeypatch.setenv(each["name"], each["value"])
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch()
    monkeypatch.setenv("COPLACE_EXECUTOR_HOME_KUBECONFIG", str(kubeconfig))
    own = ExecutorSettings()
    assert (own.cluster, own.namespace, own.kubeconfig) == ("beta", "site-beta", None)
    assert own.kueue is kueue


def test_it_reaches_api_servers_and_who_reads_metrics_reaches_it() -> None:
    [policy] = [each for each in render_executor(*_SETS) if each["kind"] == "NetworkPolicy"]
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    [let_in] = policy["spec"]["ingress"]
    [reader] = let_in["from"]
    [name] = reader["namespaceSelector"]["matchLabels"].values()
    assert (name, let_in["ports"]) == ("monitoring", [{"port": "metrics", "protocol": "TCP"}])
    off = render_executor(*_SETS, "networkPolicy.enabled=false")
    assert "NetworkPolicy" not in {each["kind"] for each in off}


def test_prometheus_finds_its_metrics_by_its_service() -> None:
    documents = render_executor(*_SETS, known=OPERATORS)
    [monitor] = [each for each in documents if each["kind"] == "ServiceMonitor"]
    [service] = [each for each in documents if each["kind"] == "Service"]
    [manager] = [each for each in documents if each["kind"] == "StatefulSet"]
    asked = monitor["spec"]["selector"]["matchLabels"]
    assert asked.items() <= service["metadata"]["labels"].items()
    pod = manager["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert manager["spec"]["serviceName"] == service["metadata"]["name"]
    [port] = service["spec"]["ports"]
    [own] = pod["spec"]["containers"][0]["ports"]
    [endpoint] = monitor["spec"]["endpoints"]
    assert (endpoint["port"], port["targetPort"]) == (port["name"], own["name"])


@pytest.mark.parametrize(
    ("sets", "known"), [(_SETS, ()), ((*_SETS, "monitoring.enabled=false"), OPERATORS)]
)
def test_where_nobody_watches_there_is_no_monitor(
    sets: tuple[str, ...], known: tuple[str, ...]
) -> None:
    assert "ServiceMonitor" not in {each["kind"] for each in render_executor(*sets, known=known)}


@pytest.mark.parametrize("left_out", _SETS)
def test_a_chart_that_lacks_what_it_needs_is_refused(left_out: str) -> None:
    words = [word for each in _SETS if each != left_out for word in ("--set", each)]
    assert helm("template", "beta", str(EXECUTOR_CHART), *words).returncode != 0


def test_the_process_reads_the_namespace_of_the_executor(tmp_path: Path) -> None:
    documents = render(KUBERNETES_EXECUTOR)
    file = tmp_path / "clusters.yaml"
    config = one(documents, "ConfigMap", "region-kubernetes")
    file.write_text(config["data"]["clusters.yaml"])
    assert [each.executor for each in clusters_of(file)] == ["", "site-beta"]
    kept = one(documents, "Namespace", "site-beta")["metadata"]["annotations"]
    assert kept == {"helm.sh/resource-policy": "keep"}


def test_the_kueue_of_a_cluster_with_an_executor_asks_nothing_of_the_home_cluster(
    tmp_path: Path,
) -> None:
    """There the executor follows it: the process at home needs no rights for it."""
    queued = render(KUBERNETES_EXECUTOR, "--set", "kubernetes.clusters[1].kueue_queue=main")
    file = tmp_path / "clusters.yaml"
    file.write_text(one(queued, "ConfigMap", "region-kubernetes")["data"]["clusters.yaml"])
    assert [each.kueue_queue for each in clusters_of(file)] == ["", "main"]
    for kind in ("ClusterRole", "ValidatingAdmissionPolicy"):
        plain = [each for each in render(KUBERNETES_EXECUTOR) if each["kind"] == kind]
        assert [each for each in queued if each["kind"] == kind] == plain


def schema_of(plural: str) -> Any:
    kind = one(render(KUBERNETES_EXECUTOR), "CustomResourceDefinition", f"{plural}.coplace.io")
    assert kind["spec"]["scope"] == "Namespaced"
    return strict(kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def test_what_both_write_fits_the_kind_of_assignments() -> None:
    pods = [RunPod("p", "physics", "n1", 1, 2, 3, is_over=True, waits_for="image")]
    spec = assignment_body(JobKey("beta", "physics", "lu"), suspended_job("lu"))["spec"]
    told = reported(job(), pods, PodDisruption("preempted", ("n1",)), is_final=True)
    status = {**claimed(), **refused("quota"), **told, **removed(1)}
    jsonschema.validate({"spec": spec, "status": status}, schema_of(PLURAL))


def test_what_it_reports_fits_the_kind_of_its_nodes() -> None:
    body = node_body(node_spec(node("n1"), {PODS: 2}))  # type: ignore[dict-item]
    jsonschema.validate({"spec": body["spec"]}, schema_of(NODES))


def test_without_an_executor_there_is_nothing_of_it() -> None:
    names = {each["metadata"]["name"] for each in render(KUBERNETES_JOBS)}
    assert not names & {f"{PLURAL}.coplace.io", f"{NODES}.coplace.io", "executor"}
    assert of_kind("StatefulSet")

"""The resource manager of Kubernetes may do what it does, and nothing else."""

from typing import Any

import jsonschema
import pytest
import yaml

from services.kubernetes.model import records as records_of
from services.kubernetes.model.conditions import conditions_after
from services.kubernetes.model.queues import QueueCounts, queue_body
from services.kubernetes.model.records import PLURAL, record_body
from services.kubernetes.settings import clusters_of
from shared.kubernetes.claims import AfterStop, StopRequest
from shared.kubernetes.explained_wait import ExplainedWait
from shared.kubernetes.leadership import LeaderSettings
from tests.helm.chart import FIRST_TRY, KUBERNETES_JOBS, refusal, render
from tests.unit.services.kubernetes.objects import LIVE, job, recorded

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


def test_it_may_do_what_it_does_and_nothing_else() -> None:
    assert verbs(*ONE) == {
        "jobs": {"get", "list", "watch", "patch", "create", "delete"},
        "jobs/status": {"patch"},
        "jobrecords": {"get", "list", "watch", "create", "patch", "delete"},
        "jobqueues": {"create"},
        "jobqueues/status": {"patch"},
        "pods": {"list", "watch"},
        "nodes": {"list", "watch"},
        "events": {"create"},
    }


def test_where_kueue_lets_copies_run_it_may_answer_and_kueue_may_let_them_run() -> None:
    there = (*ONE[:-1], ONE[-1].replace("}]", ',"kueue_queue":"main"}]'))
    more = {name: told for name, told in verbs(*there).items() if name not in verbs(*ONE)}
    assert more == {
        "workloads": {"get", "list", "watch", "patch"},
        "workloads/status": {"patch"},
        "admissionchecks": {"get"},
        "admissionchecks/status": {"patch"},
    }
    account = "system:serviceaccount:kueue-system:kueue-controller-manager"
    for given, is_excepted in ((there, True), (ONE, False)):
        [policy] = [
            each
            for each in render(FIRST_TRY, *given, version="1.34.0")
            if each["kind"] == "ValidatingAdmissionPolicy"
        ]
        [condition] = policy["spec"]["matchConditions"]
        assert (account in condition["expression"]) is is_excepted


def test_users_may_write_what_is_theirs_where_api_servers_ask_a_policy() -> None:
    kinds = {each["kind"] for each in render(KUBERNETES_JOBS)}
    assert {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} <= kinds
    for more in (("--set", "kubernetes.admission.enabled=false"), ()):
        found = render(KUBERNETES_JOBS, *more, version="1.34.0" if more else "1.28.0")
        assert "ValidatingAdmissionPolicy" not in {each["kind"] for each in found}


def test_a_hook_gives_all_jobs_back_before_the_release_goes_and_after() -> None:
    found = [each for each in render(KUBERNETES_JOBS) if is_of_release(each)]
    assert {each["kind"] for each in found} == {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Job"),
        "NetworkPolicy",
    }
    for each in found:
        hooks = each["metadata"]["annotations"]["helm.sh/hook"]
        assert hooks == "pre-delete,post-delete", "after it only what comes with the hook is there"
    [job] = [each for each in found if each["kind"] == "Job"]
    pod = job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["command"] == ["coplace", "kubernetes", "release", "--all"]
    named = {each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each}
    assert {pod["serviceAccountName"], *named} == {"region-kubernetes-release"}


def is_of_release(document: Any) -> bool:
    return str(document["metadata"]["name"]).endswith("region-kubernetes-release")


def test_the_policy_lets_the_hook_give_jobs_back() -> None:
    [policy] = [r for r in render(KUBERNETES_JOBS) if r["kind"] == "ValidatingAdmissionPolicy"]
    [condition] = policy["spec"]["matchConditions"]
    assert ":region-kubernetes-release'" in condition["expression"]


def kind_of(plural: str) -> Any:
    [found] = [
        each
        for each in render(KUBERNETES_JOBS)
        if each["kind"] == "CustomResourceDefinition" and each["spec"]["names"]["plural"] == plural
    ]
    return found


def records() -> Any:
    return kind_of(PLURAL)


def test_the_kind_of_queues_shows_what_is_in_them_and_viewers_read_it_alone() -> None:
    [version] = kind_of("jobqueues")["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    counts = QueueCounts(1, 2, 3, 4, 5)
    found = {"spec": queue_body("a", "north", "alpha")["spec"], "status": counts.to_status()}
    jsonschema.validate(found, schema)
    assert version["subresources"] == {"status": {}}
    view = "rbac.authorization.k8s.io/aggregate-to-view"
    [role] = [r for r in render(KUBERNETES_JOBS) if view in r["metadata"].get("labels", {})]
    [rule] = role["rules"]
    assert (rule["resources"], rule["verbs"]) == (["jobqueues"], ["get", "list", "watch"])


def test_the_kind_of_its_records_is_installed_and_kept() -> None:
    found = records()
    assert (found["spec"]["group"], found["spec"]["names"]["plural"]) == ("coplace.io", PLURAL)
    assert found["spec"]["scope"] == "Cluster"
    assert found["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    without = render(KUBERNETES_JOBS, "--set", "kubernetes.installCrd=false")
    assert "CustomResourceDefinition" not in {each["kind"] for each in without}


def test_what_it_writes_fits_the_kind_of_its_records() -> None:
    schema = records()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    stop = StopRequest(AfterStop.DECLINE, "too late", 1, ("n1",))
    record = recorded()
    conditions = conditions_after(record, {"outcome": "completed"}, 1)
    found = record_body(job(), record.submitted, "coplace", conditions)
    status = {"claim": LIVE.to_fields(), "stop": stop.to_fields(), "outcome": "completed"}
    status |= records_of.charging(record, "1 service unit", "1")["status"]
    status |= records_of.explaining(record, ExplainedWait("full", 1))["status"]
    status |= {"expectedAt": "2026-01-01T00:00:00Z"}
    status |= records_of.releasing(record, 1)["status"] | found["status"]
    jsonschema.validate({"spec": found["spec"], "status": status}, strict(schema))
    wrong = {"spec": found["spec"], "status": {**status, "stop": {"then": "dance"}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, strict(schema))


def strict(schema: Any) -> Any:
    """An API server drops what a kind does not name: here that fails."""
    if isinstance(schema, dict):
        found = {name: strict(each) for name, each in schema.items()}
        is_open = schema.get("x-kubernetes-preserve-unknown-fields")
        return found | ({"additionalProperties": False} if _is_closed(schema, is_open) else {})
    return [strict(each) for each in schema] if isinstance(schema, list) else schema


def _is_closed(schema: Any, is_open: Any) -> bool:
    return schema.get("type") == "object" and "properties" in schema and not is_open


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


def leader(*arguments: str) -> tuple[Any, dict[str, Any]]:
    manager = of_kind("StatefulSet", *arguments)
    [container] = manager["spec"]["template"]["spec"]["containers"]
    return manager, {each["name"]: each.get("value") for each in container["env"]}


def test_of_two_processes_one_leads_by_a_lease_that_they_may_write() -> None:
    two = (*ONE, "--set", "kubernetes.replicas=2,kubernetes.takeover_s=20", "--namespace", "hpc")
    manager, env = leader(*two)
    assert manager["spec"]["replicas"] == 2
    namespace, lease = env["COPLACE_KUBERNETES_LEADER_LEASE"].split("/")
    assert (namespace, env["COPLACE_KUBERNETES_TAKEOVER_S"]) == ("hpc", "20")
    documents = render(FIRST_TRY, *two)
    [role] = [r for r in documents if r["kind"] == "Role"]
    named = [rule for rule in role["rules"] if rule.get("resourceNames")]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in named] == [
        ([lease], ["get", "patch"])
    ]
    [bound] = [r for r in documents if r["kind"] == "RoleBinding"]
    assert bound["roleRef"]["name"] == role["metadata"]["name"]
    account = manager["spec"]["template"]["spec"]["serviceAccountName"]
    assert [each["name"] for each in bound["subjects"]] == [account]
    budgets = {r["metadata"]["name"] for r in documents if r["kind"] == "PodDisruptionBudget"}
    assert "region-kubernetes" in budgets


def test_one_process_needs_no_lease() -> None:
    manager, env = leader(*ONE)
    assert manager["spec"]["replicas"] == 1
    assert "COPLACE_KUBERNETES_LEADER_LEASE" not in env
    assert "Role" not in {each["kind"] for each in render(FIRST_TRY, *ONE)}


def test_the_process_reads_the_lease_that_the_chart_names(monkeypatch: pytest.MonkeyPatch) -> None:
    _, env = leader(*ONE, "--set", "kubernetes.replicas=2")
    for name in ("LEADER_LEASE", "TAKEOVER_S"):
        monkeypatch.setenv(f"COPLACE_X_{name}", env[f"COPLACE_KUBERNETES_{name}"])
    found = LeaderSettings(_env_prefix="COPLACE_X_")
    assert (found.leader_lease, found.takeover_s) == ("default/region-kubernetes", 15)

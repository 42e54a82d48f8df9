"""What the chart renders, and what it refuses: `make test-helm`."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from deploy.compose.check import NOT_PLAYED, SERVICES

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm/coplace"
EXAMPLES = sorted((ROOT / "helm/examples").glob("*.yaml"))
FIRST_TRY, OWN_SERVERS = (
    ROOT / "helm/examples/first-try.yaml",
    ROOT / "helm/examples/own-servers.yaml",
)
# From the oldest that the chart says it runs on to the newest whose schemas are at hand.
VERSIONS = ["1.28.0", "1.30.0", "1.32.0", "1.34.0"]
# Custom resources: their schemas come with their operators.
OPERATORS = ("keda.sh/v1alpha1", "monitoring.coreos.com/v1")

Resource = Mapping[str, Any]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [os.environ["HELM"], *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def render(values: Path, *arguments: str, version: str = "1.34.0") -> list[Resource]:
    known = [word for api in OPERATORS for word in ("--api-versions", api)]
    words = ["--kube-version", version, "--values", str(values), *known, *arguments]
    done = helm("template", "region", str(CHART), *words)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def refusal(*sets: str, values: Path | None = None) -> str:
    words = [word for each in sets for word in ("--set", each)]
    words += ["--values", str(values)] if values else []
    done = helm("template", "region", str(CHART), "--kube-version", "1.34.0", *words)
    assert done.returncode != 0
    return done.stderr


def pods(resources: list[Resource]) -> Iterator[tuple[str, Resource]]:
    for resource in resources:
        if resource["kind"] == "Pod":
            yield resource["metadata"]["name"], resource["spec"]
        elif "template" in resource.get("spec", {}):
            yield resource["metadata"]["name"], resource["spec"]["template"]["spec"]


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_the_linter_finds_nothing(values: Path) -> None:
    known = ["--kube-version", "1.34.0"]
    if values.stem == "autoscaled":  # the linter knows no custom resources
        known += ["--set", "autoscaling.enabled=false"]
    done = helm("lint", "--strict", str(CHART), "--values", str(values), *known)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_what_is_rendered_fits_the_schemas_of_kubernetes(values: Path, version: str) -> None:
    resources = render(values, version=version)
    own = [r for r in resources if r["apiVersion"] not in OPERATORS]
    assert len(own) > 30
    for resource in own:
        kubernetes_validate.validate(resource, version, strict=True)


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_names_of_a_kind_are_unique(values: Path) -> None:
    found = [(r["kind"], r["metadata"]["name"]) for r in render(values)]
    assert len(found) == len(set(found))


def test_all_services_of_the_compose_file_are_there() -> None:
    names = {name for name, _ in pods(render(FIRST_TRY, "--set", "services.planner.enabled=true"))}
    expected = {f"region-{name}" for name in (*SERVICES, *NOT_PLAYED, "kafka", "redis", "test")}
    assert names == expected | {"region-topics-1"}


def test_what_is_switched_off_is_not_there() -> None:
    sets = ("--set", "services.ingestJobcomp.enabled=false", "--set", "topics.create=false")
    found = {r["metadata"]["name"] for r in render(FIRST_TRY, *sets)}
    assert not [name for name in found if "jobcomp" in name or "topics" in name]


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_no_pod_may_more_than_its_work(values: Path) -> None:
    for name, pod in pods(render(values)):
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            assert key not in pod, name
        for container in pod["containers"]:
            allowed = container["securityContext"]
            assert allowed["allowPrivilegeEscalation"] is False, name
            assert allowed["capabilities"] == {"drop": ["ALL"]}, name
            # Kafka's own start writes its configuration beside its programs.
            assert allowed.get("readOnlyRootFilesystem") or name == "region-kafka"
            assert container["resources"]["limits"]["memory"], name


def test_nothing_that_runs_for_long_is_without_probes() -> None:
    for name, pod in pods(render(OWN_SERVERS)):
        if pod.get("restartPolicy", "Always") == "Always":
            [container] = pod["containers"]
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys(), name


def test_no_secret_is_rendered() -> None:
    """Passwords come by reference: what is rendered lies in Kubernetes for whoever reads it."""
    resources = render(OWN_SERVERS)
    assert not [r for r in resources if r["kind"] == "Secret"]
    for _, pod in pods(resources):
        for variable in pod["containers"][0]["env"]:
            if "PASSWORD" in variable["name"] or "USERNAME" in variable["name"]:
                assert "value" not in variable


def test_traffic_is_denied_but_for_the_flow() -> None:
    policies = [r for r in render(FIRST_TRY) if r["kind"] == "NetworkPolicy"]
    [default] = [p for p in policies if p["metadata"]["name"] == "region-default-deny"]
    assert default["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & default["spec"].keys()
    covered = default["spec"]["podSelector"]["matchLabels"].items()
    for resource in render(FIRST_TRY):
        if "template" in resource.get("spec", {}):
            labels = resource["spec"]["template"]["metadata"]["labels"]
            assert covered <= labels.items(), resource["metadata"]["name"]
    for policy in policies:
        for rule in policy["spec"].get("ingress", []):
            assert rule["from"], policy["metadata"]["name"]
            assert rule["ports"], policy["metadata"]["name"]


def test_the_operators_clients_and_servers_alone_are_let_through() -> None:
    policies = {
        r["metadata"]["name"]: r["spec"]
        for r in render(OWN_SERVERS)
        if r["kind"] == "NetworkPolicy"
    }
    [_, grpc] = policies["region-ingest"]["ingress"]
    assert grpc["from"][0]["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "slurm"
    }
    [servers] = policies["region-servers"]["egress"]
    assert servers["to"] == [{"ipBlock": {"cidr": "10.20.0.0/16"}}]


def test_a_worker_keeps_its_name_over_restarts() -> None:
    for resource in render(OWN_SERVERS):
        if resource["kind"] == "StatefulSet":
            [container] = resource["spec"]["template"]["spec"]["containers"]
            [worker] = [v for v in container["env"] if v["name"] == "COPLACE_WORKER"]
            assert worker["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"


def test_more_processes_are_disrupted_one_at_a_time() -> None:
    resources = render(OWN_SERVERS)
    budgets = {
        r["metadata"]["name"]: r["spec"] for r in resources if r["kind"] == "PodDisruptionBudget"
    }
    several = {
        r["metadata"]["name"]
        for r in resources
        if r["kind"] in ("Deployment", "StatefulSet") and r["spec"]["replicas"] > 1
    }
    assert budgets.keys() == several
    assert {spec["maxUnavailable"] for spec in budgets.values()} == {1}


def test_scaling_asks_for_the_lag_of_groups_and_topics_that_there_are() -> None:
    from cli.stages import every_stage
    from shared.runtime.settings import Settings

    stages = {stage.name: stage for stage in every_stage(Settings())}
    scaled = [
        r for r in render(ROOT / "helm/examples/autoscaled.yaml") if r["kind"] == "ScaledObject"
    ]
    assert len(scaled) == 2
    for resource in scaled:
        assert resource["spec"]["maxReplicaCount"] == 6
        for trigger in resource["spec"]["triggers"]:
            stage = stages[trigger["metadata"]["consumerGroup"]]
            assert trigger["metadata"]["topic"] in stage.inputs
            assert not stage.single


def test_alerts_and_dashboard_are_those_of_the_project() -> None:
    resources = render(FIRST_TRY)
    [rules] = [r for r in resources if r["kind"] == "PrometheusRule"]
    assert rules["spec"] == yaml.safe_load((CHART / "files/alerts.yml").read_text())
    [board] = [r for r in resources if r["kind"] == "ConfigMap"]
    assert json.loads(board["data"]["coplace.json"])["panels"]


@pytest.mark.parametrize(
    ("sets", "told"),
    [
        ((), "kafka.bootstrap is missing"),
        (("kafka.bootstrap=k:9092",), "redis.url is missing"),
        (("kafka.bootstrap=k:9092", "kafka.own.enabled=true"), "not both"),
        (("kafka.bootstrap=k",), "kafka/bootstrap"),
        (("kafka.bootstrap=k:9092", "redis.url=http://r"), "redis/url"),
        (("kafka.bootstrap=k:9092", "redis.url=redis://:secret@r"), "redis/url"),
        (("kafka.own.enabled=true", "redis.own.enabled=true", "redis.url=redis://r"), "set one of"),
        (("kafka.own.enabled=true", "kafka.securityProtocol=SSL"), "PLAINTEXT alone"),
        (
            ("kafka.bootstrap=k:9092", "redis.url=redis://r", "kafka.securityProtocol=SASL_SSL"),
            "kafka.sasl.secret is missing",
        ),
        (("kafka.bootstap=k:9092",), "'bootstap' not allowed"),
        (("services.plannner.enabled=true",), "'plannner' not allowed"),
        (("services.placement.replicas=2",), "'replicas' not allowed"),
        (("services.pricing.replicas=0",), "minimum"),
        (("services.pricing.env.PATH=x",), "PATH"),
        (("logLevel=loud",), "logLevel"),
        (
            ("kafka.bootstrap=k:9092", "redis.url=redis://r", "autoscaling.enabled=true"),
            "needs KEDA",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    sets: tuple[str, ...], told: str
) -> None:
    assert told in refusal(*sets)

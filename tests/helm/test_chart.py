"""What the chart renders, and what it refuses: `make test-helm`."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from cli.stages import every_stage
from deploy.compose.check import NOT_PLAYED, SERVICES
from shared.process.settings import Settings
from tests.helm.chart import (
    AUTOSCALED,
    CHART,
    EXAMPLES,
    FIRST_TRY,
    OPERATORS,
    OWN_SERVERS,
    STRIMZI,
    VERSIONS,
    helm,
    named,
    pods,
    refusal,
    render,
    validate,
    variables,
)

SERVERS = "kafka.bootstrap=k:9092,redis.url=redis://r"


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_the_linter_finds_nothing(values: Path) -> None:
    words = ["lint", "--strict", str(CHART), "--kube-version", "1.34.0", "--values", str(values)]
    if values == AUTOSCALED:  # the linter knows no custom resources
        words += ["--set", "autoscaling.enabled=false"]
    if values == STRIMZI:
        words += ["--set", "kafka.strimzi.enabled=false,kafka.own.enabled=true"]
    done = helm(*words)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "version",
    [
        VERSIONS[0],
        *(pytest.param(each, marks=pytest.mark.rest) for each in VERSIONS[1:-1]),
        VERSIONS[-1],
    ],
)
@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_what_is_rendered_fits_the_schemas_of_kubernetes(values: Path, version: str) -> None:
    resources = render(values, version=version)
    own = [r for r in resources if r["apiVersion"] not in OPERATORS]
    assert len(own) > 20
    for resource in own:
        validate(resource, version)


def test_the_newest_schemas_are_among_them() -> None:
    assert VERSIONS[-1] == kubernetes_validate.latest_version()


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_names_of_a_kind_are_unique(values: Path) -> None:
    found = [(r["kind"], r["metadata"]["name"]) for r in render(values)]
    assert len(found) == len(set(found))


def test_all_services_of_the_compose_file_are_there_but_for_what_is_switched_off() -> None:
    switched = "services.planner.enabled=true,services.rest.enabled=true"
    switched += ",services.archive.enabled=true,services.archive.claim=files"
    switched += ",services.history.enabled=true,services.history.claim=rows"
    switched += ",services.webhooks.enabled=true,services.webhooks.claim=rows"
    words = ("--set", switched, "--set", "services.ingestJobcomp.enabled=false")
    expected = {f"region-{name}" for name in (*SERVICES, *NOT_PLAYED, "kafka", "redis", "test")}
    expected |= {"region-topics-1", "region-preflight"}
    off = {name for name in expected if "jobcomp" in name}
    assert len(off) == 1
    assert {name for name, _, _ in pods(render(FIRST_TRY, *words))} == expected - off
    without = render(FIRST_TRY, "--set", "topics.create=false")
    assert not [r for r in without if "topics" in r["metadata"]["name"]]


_ASK_KUBERNETES = ("kubernetes", "kubernetes-release", "kueue", "kueue-silence")


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_no_pod_may_more_than_its_work(values: Path) -> None:
    for name, pod, _ in pods(render(values)):
        asks_kubernetes = name.removeprefix("region-") in _ASK_KUBERNETES
        assert pod["automountServiceAccountToken"] is asks_kubernetes, name
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
    for name, pod, _ in pods(render(OWN_SERVERS)):
        if pod.get("restartPolicy", "Always") == "Always":
            [container] = pod["containers"]
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys(), name


def test_no_secret_is_rendered() -> None:
    """Passwords come by reference: what is rendered lies in Kubernetes for whoever reads it."""
    resources = render(OWN_SERVERS)
    assert not [r for r in resources if r["kind"] == "Secret"]
    for _, pod, _ in pods(resources):
        for name, variable in variables(pod).items():
            assert "value" not in variable or not ("PASSWORD" in name or "USERNAME" in name)


def test_traffic_is_denied_but_for_the_flow() -> None:
    policies = named(render(FIRST_TRY), "NetworkPolicy")
    default = policies["region-default-deny"]
    assert default["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & default["spec"].keys()
    covered = default["spec"]["podSelector"]["matchLabels"].items()
    for name, _, labels in pods(render(FIRST_TRY)):
        assert covered <= labels.items(), name
    for name, policy in policies.items():
        for rule in policy["spec"].get("ingress", []):
            assert rule["from"], name
            assert rule["ports"], name


def test_the_operators_clients_and_servers_alone_are_let_through() -> None:
    policies = named(render(OWN_SERVERS), "NetworkPolicy")
    [_, grpc] = policies["region-ingest"]["spec"]["ingress"]
    slurm = {"kubernetes.io/metadata.name": "slurm"}
    assert grpc["from"][0]["namespaceSelector"]["matchLabels"] == slurm
    [servers] = policies["region-servers"]["spec"]["egress"]
    assert servers["to"] == [{"ipBlock": {"cidr": "10.20.0.0/16"}}]


def test_a_worker_keeps_its_name_over_restarts() -> None:
    for resource in named(render(OWN_SERVERS), "StatefulSet").values():
        worker = variables(resource["spec"]["template"]["spec"])["COPLACE_WORKER"]
        assert worker["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"


def test_more_processes_are_disrupted_one_at_a_time() -> None:
    resources = render(OWN_SERVERS)
    budgets = named(resources, "PodDisruptionBudget")
    running = {**named(resources, "Deployment"), **named(resources, "StatefulSet")}
    assert budgets.keys() == {n for n, one in running.items() if one["spec"]["replicas"] > 1}
    assert {each["spec"]["maxUnavailable"] for each in budgets.values()} == {1}


def test_scaling_asks_for_the_lag_of_groups_and_topics_that_there_are() -> None:
    stages = {f"north.{stage.name}": stage for stage in every_stage(Settings())}
    scaled = named(render(AUTOSCALED, "--set", "topicPrefix=north"), "ScaledObject")
    assert scaled.keys() == {"region-energy"}
    assert scaled["region-energy"]["spec"]["maxReplicaCount"] == 6
    for trigger in scaled["region-energy"]["spec"]["triggers"]:
        group, topic = (trigger["metadata"][key] for key in ("consumerGroup", "topic"))
        assert topic in {f"north.{name}" for name in stages[group].inputs}
        assert not stages[group].single


def test_alerts_and_dashboard_are_those_of_the_project() -> None:
    resources = render(FIRST_TRY)
    assert named(resources, "PrometheusRule")["region"]["spec"] == yaml.safe_load(
        (CHART / "files/alerts.yml").read_text()
    )
    board = named(resources, "ConfigMap")["region-dashboard"]
    assert json.loads(board["data"]["coplace.json"])["panels"]


@pytest.mark.parametrize(
    ("sets", "told"),
    [
        ("", "kafka.bootstrap is missing"),
        ("kafka.bootstrap=k:9092", "redis.url is missing"),
        ("kafka.bootstrap=k:9092,kafka.own.enabled=true", "not more"),
        ("kafka.bootstrap=k", "kafka/bootstrap"),
        ("kafka.bootstrap=k:9092,redis.url=http://r", "redis/url"),
        ("kafka.bootstrap=k:9092,redis.url=redis://:secret@r", "redis/url"),
        ("kafka.own.enabled=true,redis.own.enabled=true,redis.url=redis://r", "set one of"),
        ("kafka.own.enabled=true,kafka.securityProtocol=SSL", "PLAINTEXT alone"),
        (f"{SERVERS},kafka.securityProtocol=SASL_SSL", "kafka.sasl.secret is missing"),
        ("kafka.bootstap=k:9092", "'bootstap' not allowed"),
        ("services.plannner.enabled=true", "'plannner' not allowed"),
        ("services.placement.replicas=2", "'replicas' not allowed"),
        ("services.pricing.replicas=0", "minimum"),
        ("services.pricing.env.PATH=x", "PATH"),
        ("services.placement.env.COPLACE_PLACEMENT_CAP_MARGIN=1", "CAP_MARGIN"),
        ("services.planner.env.COPLACE_PLACEMENT_POLICY=fifo", "POLICY"),
        ("env.COPLACE_PLACEMENT_MOST_REQUEUES=-1", "MOST_REQUEUES"),
        ("logLevel=loud", "logLevel"),
        (f"{SERVERS},autoscaling.enabled=true", "needs KEDA"),
        (f"{SERVERS},services.archive.enabled=true", "services.archive.claim is missing"),
        (f"{SERVERS},services.history.enabled=true", "services.history.claim is missing"),
        (f"{SERVERS},services.webhooks.enabled=true", "services.webhooks.claim is missing"),
        (
            f"{SERVERS},services.pricing.env.COPLACE_PRICING_RATE_SU_PER_CORE_S=2",
            "COPLACE_PRICING_RATE_SU_PER_CORE_S must be the same",
        ),
        (
            f"{SERVERS},services.pricing.env.COPLACE_PRICING_RATE_SU_PER_CORE_S=2,"
            "services.placement.env.COPLACE_PRICING_RATE_SU_PER_CORE_S=3",
            "COPLACE_PRICING_RATE_SU_PER_CORE_S must be the same",
        ),
        (
            f"{SERVERS},services.history.enabled=true,services.history.claim=rows,"
            "services.history.databaseSecret=sql",
            "set one of services.history.claim and services.history.databaseSecret",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(sets: str, told: str) -> None:
    assert told in refusal(*filter(None, [sets]))


def test_the_archive_has_its_claim_or_the_credentials_of_an_object_store() -> None:
    [pod] = _archive("services.archive.claim=files")
    assert {"name": "archive", "mountPath": "/archive"} in pod["containers"][0]["volumeMounts"]
    claim = {"claimName": "files"}
    assert {"name": "archive", "persistentVolumeClaim": claim} in pod["volumes"]
    where = "services.archive.env.COPLACE_ARCHIVE_WHERE=s3://bucket/coplace"
    [pod] = _archive(f"{where},services.archive.credentialsSecret=store")
    [container] = pod["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "store"}}]
    given = {each["name"]: each.get("value") for each in container["env"]}
    assert given["COPLACE_ARCHIVE_WHERE"] == "s3://bucket/coplace"
    assert "archive" not in {each["name"] for each in pod["volumes"]}


def test_the_history_has_its_claim_or_the_url_of_postgresql_from_a_secret() -> None:
    of_postgresql = "services.history.enabled=true,services.history.databaseSecret=sql"
    rendered = render(FIRST_TRY, "--set", of_postgresql)
    [pod] = [pod for name, pod, _ in pods(rendered) if name == "region-history"]
    [container] = pod["containers"]
    [database] = [e for e in container["env"] if e["name"] == "COPLACE_HISTORY_DATABASE"]
    assert database["valueFrom"] == {"secretKeyRef": {"name": "sql", "key": "url"}}
    assert "history" not in {each["name"] for each in pod["volumes"]}


def _archive(values: str) -> list[Mapping[str, Any]]:
    rendered = render(FIRST_TRY, "--set", f"services.archive.enabled=true,{values}")
    return [pod for name, pod, _ in pods(rendered) if name == "region-archive"]


def test_webhooks_listen_to_alertmanager_and_reach_what_is_public() -> None:
    words = "services.webhooks.enabled=true,services.webhooks.claim=rows"
    listens = render(FIRST_TRY, "--set", f"{words},services.webhooks.alertsSecret=alertmanager")
    [pod] = [found for name, found, _ in pods(listens) if name == "region-webhooks"]
    [container] = pod["containers"]
    settings = {each["name"]: each.get("value") for each in container["env"]}
    assert settings["COPLACE_WEBHOOKS_DATABASE"] == "/webhooks/webhooks.db"
    assert settings["COPLACE_WEBHOOKS_ALERTS_TOKEN_FILE"] == "/etc/coplace/alerts/token"
    assert {"name": "alerts", "containerPort": 8091} in container["ports"]
    policies = {
        each["metadata"]["name"]: each["spec"]
        for each in listens
        if each["kind"] == "NetworkPolicy"
    }
    [alerts] = [
        rule
        for rule in policies["region-webhooks"]["ingress"]
        if rule["ports"][0]["port"] == "alerts"
    ]
    assert "monitoring" in str(alerts["from"])
    [outside] = policies["region-webhooks-receivers"]["egress"]
    closed = {network for peer in outside["to"] for network in peer["ipBlock"]["except"]}
    assert {"10.0.0.0/8", "169.254.0.0/16", "fc00::/7"} <= closed
    assert {"fec0::/10", "64:ff9b::/96"} <= closed
    without = render(FIRST_TRY, "--set", words)
    assert "ALERTS" not in str(without)


def test_each_secret_of_a_service_is_asked_for_before_anything_starts(tmp_path: Path) -> None:
    chart = shutil.copytree(CHART, tmp_path / "chart")
    asked = '{{ include "coplace.secrets" . | quote }}'
    shown = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: asked}}\ndata: {{of: {asked}}}\n"
    (chart / "templates/asked.yaml").write_text(shown)
    words = "services.webhooks.enabled=true,services.webhooks.claim=rows"
    words += ",services.webhooks.alertsSecret=alertmanager"
    only = ["--values", str(FIRST_TRY), "--set", words, "--show-only", "templates/asked.yaml"]
    done = helm("template", "region", str(chart), "--kube-version", "1.34.0", *only)
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(yaml.safe_load(done.stdout)["data"]["of"])
    value = "services.webhooks.alertsSecret"
    assert {"value": value, "name": "alertmanager", "keys": ["token"]} in found


def test_a_history_on_postgresql_reaches_its_server() -> None:
    inside = "services.history.enabled=true,services.history.databaseSecret=sql,otlpEndpoint="
    policies = named(render(FIRST_TRY, "--set", inside), "NetworkPolicy")
    assert policies["region-servers"]["spec"]["egress"] == [{}]
    without = named(render(FIRST_TRY, "--set", "otlpEndpoint="), "NetworkPolicy")
    assert "region-servers" not in without

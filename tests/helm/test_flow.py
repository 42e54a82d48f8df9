"""The chart lets each service reach what its code speaks to, and nothing else.

Who speaks to what comes from `proto/principals.yaml` and from the settings of services, who may
from an evaluation of the rendered NetworkPolicies as Kubernetes defines them.
"""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pytest
from pydantic_settings import BaseSettings

import services
from shared.catalogue.access.rules import OPERATOR, load_principals
from shared.process.environment import EnvironmentSettings
from shared.process.settings import Settings
from tests.helm.chart import (
    KUBERNETES_JOBS,
    KUEUE,
    OWN_SERVERS,
    SLURM,
    STRIMZI,
    Document,
    pods,
    render,
    variables,
)

KAFKA_PORT: Final = 9092
REDIS_PORT: Final = 6379
# They have no pod in a region: of emulated runs alone, or of sites (test_roles).
ELSEWHERE: Final = {"simulation", "mirror"}
# Pods that are the operator's, and whether they speak to Redis.
OPERATORS_PODS: Final = {
    "topics": False,
    "preflight": True,
    "test": False,
    "authority": False,
}
# These ask API servers alone.
WITHOUT_KAFKA: Final = {"kubernetes-release"}

Labels = Mapping[str, str]


def services_settings() -> Iterator[type[BaseSettings]]:
    """The settings of every service."""
    for found in pkgutil.walk_packages(services.__path__, "services."):
        if found.name.endswith(".settings"):
            for kind in vars(importlib.import_module(found.name)).values():
                if isinstance(kind, type) and issubclass(kind, EnvironmentSettings):
                    yield kind


def prefix(kind: type[BaseSettings]) -> str:
    return str(kind.model_config["env_prefix"])


_KUEUE = (
    "--set",
    "kueue.enabled=true,kueue.site=north",
    "--set-json",
    'kueue.clusters=[{"name":"alpha","node_model":"g","pstates_ghz":[3.1],'
    '"idle_power_w":110,"peak_bandwidth_gbps":140}]',
)


def everything() -> tuple[Document, ...]:
    archive = "services.archive.enabled=true,services.archive.claim=files"
    archive += ",services.history.enabled=true,services.history.claim=rows"
    archive += ",services.webhooks.enabled=true,services.webhooks.claim=rows"
    return render(KUBERNETES_JOBS, "--set", f"services.planner.enabled=true,{archive}", *_KUEUE)


def component(labels: Labels) -> str:
    return labels["app.kubernetes.io/component"]


def selects(selector: Mapping[str, Any], labels: Labels) -> bool:
    """Whether a label selector takes a pod."""
    wanted = selector.get("matchLabels", {}).items()
    return wanted <= labels.items() and all(
        (labels.get(each["key"]) in each["values"]) == (each["operator"] == "In")
        for each in selector.get("matchExpressions", ())
    )


def allows(rule: Mapping[str, Any], side: str, peer: Labels, port: int, names: Labels) -> bool:
    """Whether one rule lets a pod of the same namespace through. `names` are the ports' numbers."""
    peers: Sequence[Mapping[str, Any]] = rule.get(side, [])
    if side in rule and not any(
        "podSelector" in each
        and "namespaceSelector" not in each
        and selects(each["podSelector"], peer)
        for each in peers
    ):
        return False
    ports = [str(each["port"]) for each in rule.get("ports", ())]
    return not ports or str(port) in {names.get(each, each) for each in ports}


def lets(
    policies: Sequence[Document], direction: str, pod: Labels, peer: Labels, port: int
) -> bool:
    """Whether the policies about a pod let it speak to a peer, or be spoken to by it."""
    side = {"Ingress": "from", "Egress": "to"}[direction]
    names = {"grpc": str(port), "kafka": str(KAFKA_PORT), "redis": str(REDIS_PORT)}
    about = [
        policy["spec"]
        for policy in policies
        if direction in policy["spec"]["policyTypes"]
        and selects(policy["spec"]["podSelector"], pod)
    ]
    assert about, f"nothing is denied to {component(pod)}"
    return any(
        allows(rule, side, peer, port, names)
        for spec in about
        for rule in spec.get(direction.lower(), ())
    )


def reaches(documents: Sequence[Document], source: Labels, target: Labels, port: int) -> bool:
    """Whether a connection comes about: both sides have to let it."""
    policies = [each for each in documents if each["kind"] == "NetworkPolicy"]
    return lets(policies, "Egress", source, target, port) and lets(
        policies, "Ingress", target, source, port
    )


def who_reaches(documents: tuple[Document, ...], server: str, port: int) -> set[str]:
    every = {component(labels): labels for _, _, labels in pods(documents)}
    return {
        name
        for name, labels in every.items()
        if name != server and reaches(documents, labels, every[server], port)
    }


def test_every_principal_has_its_pod_and_every_pod_its_principal() -> None:
    own = {name for name, one in load_principals().items() if not one.is_role and not one.operates}
    found = {component(labels) for _, _, labels in pods(everything())} - WITHOUT_KAFKA
    assert found - OPERATORS_PODS.keys() - {"kafka", "redis"} == own - ELSEWHERE


def test_kafka_is_reached_by_all_but_redis() -> None:
    expected = {component(labels) for _, _, labels in pods(everything())} - {"kafka", "redis"}
    assert who_reaches(everything(), "kafka", KAFKA_PORT) == expected


def test_redis_is_reached_by_those_whose_rows_it_holds_and_they_alone_know_where_it_is() -> None:
    rows = {name for name, one in load_principals().items() if one.reads_rows or one.writes_rows}
    operators = {name for name, speaks in OPERATORS_PODS.items() if speaks}
    found = pods(everything())
    told = {component(labels) for _, pod, labels in found if "COPLACE_REDIS_URL" in variables(pod)}
    assert who_reaches(everything(), "redis", REDIS_PORT) == rows | operators == told


def test_what_listens_for_grpc_is_reached_and_nothing_else_is() -> None:
    """A service that listens has `host` and `port` among its settings."""
    listening = {
        prefix(kind).removeprefix("COPLACE_").removesuffix("_").lower().replace("_", "-")
        for kind in services_settings()
        if {"host", "port"} <= kind.model_fields.keys()
    } - {"rest"}  # it listens for HTTP
    documents = everything()
    ports = {
        component(labels): port["containerPort"]
        for _, pod, labels in pods(documents)
        for port in pod["containers"][0].get("ports", ())
        if port["name"] == "grpc"
    }
    assert ports.keys() == listening
    client = {"app": "a-resource-manager"}
    policies = [each for each in documents if each["kind"] == "NetworkPolicy"]
    for _, _, labels in pods(documents):
        port = ports.get(component(labels), 50051)
        assert lets(policies, "Ingress", labels, client, port) is (component(labels) in ports)


def test_the_test_of_a_release_and_its_table_of_authority_reach_ingest() -> None:
    documents = render(OWN_SERVERS)
    every = {component(labels): labels for _, _, labels in pods(documents)}
    for name in ("test", "authority"):
        assert reaches(documents, every[name], every["ingest"], 50051)
    assert not reaches(documents, every["topics"], every["ingest"], 50051)


def test_the_resource_manager_of_a_slurm_reaches_whom_it_asks_alone() -> None:
    documents = render(SLURM)
    every = {component(labels): labels for _, _, labels in pods(documents)}
    asked = {"ingest": 50051, "placement": 50053, "watch": 50054}
    for name, port in {**asked, "energy-api": 50052, "redis": REDIS_PORT}.items():
        assert reaches(documents, every["slurm"], every[name], port) is (name in asked)


@pytest.mark.parametrize(
    "values", [KUBERNETES_JOBS, KUEUE, SLURM, OWN_SERVERS, STRIMZI], ids=lambda path: path.stem
)
def test_every_variable_is_one_that_is_read(values: Any) -> None:
    every: list[type[BaseSettings]] = [Settings, *services_settings()]
    read = {f"{prefix(kind)}{name}".upper() for kind in every for name in kind.model_fields}
    documents = render(values, "--set", "topicPrefix=north")
    named_by_us = {
        name for _, pod, _ in pods(documents) for name in variables(pod) if "COPLACE_" in name
    }
    # Of the command line.
    assert named_by_us - read <= {"COPLACE_INGEST_ADDRESS"}


def test_each_service_may_have_a_user_of_its_own() -> None:
    words = ("--set", "kafka.sasl.secret=,kafka.sasl.secretPrefix=kafka-")
    documents = render(OWN_SERVERS, *words)
    for _, pod, labels in pods(documents):
        name = component(labels)
        expected = f"kafka-{OPERATOR if name in OPERATORS_PODS else name}"
        for key in ("username", "password"):
            found = variables(pod)[f"COPLACE_KAFKA_SASL_{key.upper()}"]
            assert found["valueFrom"]["secretKeyRef"] == {"name": expected, "key": key}

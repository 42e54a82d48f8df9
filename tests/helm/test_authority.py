"""The table of authority as part of an installation."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.authority.file import read_issuer, read_table
from shared.authority.issuer import Issuer
from tests.helm.chart import (
    FIRST_TRY,
    KUBERNETES_JOBS,
    OWN_SERVERS,
    named,
    pods,
    refusal,
    render,
    variables,
)
from tests.helm.test_roles import SITE, containers

OF_A_CONFIG_MAP = ("--set", "authority.bindings=null,authority.configMap=who-may-what")
HOOKS = ("preflight", "authority")


def job(name: str, *words: str) -> Any:
    return named(render(OWN_SERVERS, *words), "Job")[f"region-{name}"]


def volumes(found: Any) -> dict[str, Any]:
    return {each["name"]: each for each in found["spec"]["template"]["spec"]["volumes"]}


@pytest.mark.parametrize("name", HOOKS)
def test_a_table_may_be_in_a_config_map_that_is_there(name: str) -> None:
    found = volumes(job(name, *OF_A_CONFIG_MAP))
    assert found["authority"]["configMap"] == {"name": "who-may-what"}


@pytest.mark.parametrize("name", HOOKS)
def test_the_bindings_of_values_are_a_table_in_a_file_of_the_pod(name: str, tmp_path: Path) -> None:
    found = job(name)
    [item] = volumes(found)["authority"]["downwardAPI"]["items"]
    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['coplace.io/authority']"
    file = tmp_path / item["path"]
    annotations = found["spec"]["template"]["metadata"]["annotations"]
    file.write_text(annotations["coplace.io/authority"])
    given = yaml.safe_load(OWN_SERVERS.read_text())["authority"]["bindings"]
    assert [binding.who for binding in read_table(file)] == [line["who"] for line in given]


@pytest.mark.parametrize("name", HOOKS)
def test_the_issuer_of_values_is_in_the_file_of_the_table(name: str, tmp_path: Path) -> None:
    url = "https://sso.example/realms/hpc"
    words = f"authority.issuer.url={url},authority.issuer.audience=coplace"
    annotations = job(name, "--set", words)["spec"]["template"]["metadata"]["annotations"]
    file = tmp_path / "authority.yaml"
    file.write_text(annotations["coplace.io/authority"])
    assert read_issuer(file) == Issuer(url, "coplace")


def test_it_is_looked_at_before_anything_changes_and_declared_behind_it() -> None:
    assert containers(job("preflight")) == [*HOOKS]
    when = [job(name)["metadata"]["annotations"]["helm.sh/hook"] for name in HOOKS]
    assert when == ["pre-install,pre-upgrade", "post-install,post-upgrade,post-rollback"]


def test_servers_that_come_with_the_release_are_not_asked_before_it() -> None:
    words = ("grpc.tlsSecret=g,authority.tlsSecret=o,authority.configMap=who-may-what",)
    hook = named(render(FIRST_TRY, "--set", *words), "Job")["region-preflight"]
    assert containers(hook) == ["authority"]


@pytest.mark.parametrize("name", ["region-authority", "region-test"])
def test_an_operator_declares_and_tests_and_no_service(name: str) -> None:
    [pod] = [pod for found, pod, _ in pods(render(OWN_SERVERS)) if found == name]
    certificate = variables(pod)["COPLACE_GRPC_CERT_FILE"]["value"]
    assert certificate == "/etc/coplace/operator/tls.crt"
    [operator] = [each for each in pod["volumes"] if each["name"] == "operator"]
    assert operator["secret"]["secretName"] == "coplace-operator"


@pytest.mark.parametrize(
    ("sets", "values", "told"),
    [
        (("authority.bindings[0].role=king",), OWN_SERVERS, "/authority/bindings/0/role"),
        (("authority.bindings[0].who=",), OWN_SERVERS, "/authority/bindings/0/who"),
        (("authority.bindings[0].town=x",), OWN_SERVERS, "town"),
        (("authority.configMap=c",), OWN_SERVERS, "set one of authority.bindings"),
        (("authority.issuer.url=https://x",), OWN_SERVERS, "audience"),
        (("authority.issuer.url=http://x,authority.issuer.audience=a",), OWN_SERVERS, "issuer/url"),
        (("authority.tlsSecret=",), OWN_SERVERS, "authority.tlsSecret is missing"),
        (("grpc.tlsSecret=",), OWN_SERVERS, "authority needs grpc.tlsSecret"),
        (("authority.configMap=c,authority.tlsSecret=o,grpc.tlsSecret=g",), SITE, "the hub's"),
        (("authority.configMap=c",), KUBERNETES_JOBS, "authority needs grpc.tlsSecret"),
    ],
)
def test_a_table_that_cannot_be_is_refused(sets: tuple[str, ...], values: Path, told: str) -> None:
    assert told in refusal(*sets, values=values)


def test_who_answers_takes_tokens_at_a_port_of_their_own_where_this_is_wanted() -> None:
    rendered = render(OWN_SERVERS, "--set", "grpc.tokens=true")
    ports = {"ingest": 50061, "energy-api": 50062, "placement": 50063, "watch": 50064}
    for name, pod, _ in pods(rendered):
        [one, *_] = pod["containers"]
        given = {each["name"]: each.get("value") for each in one["env"]}
        offered = {each["name"]: each["containerPort"] for each in one.get("ports", ())}
        port = ports.get(name.removeprefix("region-"))
        assert offered.get("grpc-tokens") == port
        assert given.get("COPLACE_GRPC_TOKEN_PORT") == (str(port) if port else None)
    for name, port in ports.items():
        service = named(rendered, "Service")[f"region-{name}"]["spec"]["ports"]
        assert {each["name"]: each["port"] for each in service}["grpc-tokens"] == port
        rules = named(rendered, "NetworkPolicy")[f"region-{name}"]["spec"]["ingress"]
        opened = [each["port"] for rule in rules for each in rule["ports"]]
        assert opened == ["metrics", "grpc", "grpc-tokens"]
    assert "grpc.tokens needs grpc.tlsSecret" in refusal("grpc.tokens=true", values=FIRST_TRY)


def test_rest_asks_where_tokens_count_and_is_asked_over_tls() -> None:
    rendered = render(OWN_SERVERS, "--set", "grpc.tokens=true,services.rest.enabled=true")
    [pod] = [pod for name, pod, _ in pods(rendered) if name == "region-rest"]
    given = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    asked = {"INGEST": "ingest:50061", "ENERGY": "energy-api:50062", "PLACEMENT": "placement:50063"}
    for name, address in asked.items():
        assert given[f"COPLACE_{name}_ADDRESS"] == f"region-{address}"
    assert given["COPLACE_GRPC_CERT_FILE"]
    assert "COPLACE_GRPC_TOKEN_PORT" not in given
    [_, http] = named(rendered, "Service")["region-rest"]["spec"]["ports"]
    assert (http["name"], http["port"], http["appProtocol"]) == ("http", 8090, "https")
    rules = named(rendered, "NetworkPolicy")["region-rest"]["spec"]["ingress"]
    assert [each["port"] for rule in rules for each in rule["ports"]] == ["metrics", "http"]


def test_each_service_may_have_a_user_of_its_own_at_redis() -> None:
    words = ("--set", "redis.urlSecret=,redis.urlSecretPrefix=redis-")
    urls = {}
    for _, pod, labels in pods(render(OWN_SERVERS, *words)):
        if url := variables(pod).get("COPLACE_REDIS_URL"):
            urls[labels["app.kubernetes.io/component"]] = url["valueFrom"]["secretKeyRef"]
    principals = {"preflight": "operator"}
    assert {"accounts", "appdb-cache", "energy-api", "preflight"} == urls.keys()
    for name, found in urls.items():
        assert found == {"name": f"redis-{principals.get(name, name)}", "key": "url"}

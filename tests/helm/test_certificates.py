"""Certificates that cert-manager makes, in the secrets that the release reads."""

from typing import Any

import pytest

from tests.helm.chart import FIRST_TRY, OWN_SERVERS, Document, named, pods, refusal, render

ISSUER = ("--set", "certificates.issuerRef.name=ca,certificates.issuerRef.kind=ClusterIssuer")


def made(*more: str) -> Any:
    return named(render(OWN_SERVERS, *ISSUER, *more), "Certificate")


def test_services_and_the_operator_have_certificates_in_the_secrets_that_they_read() -> None:
    found = made("--set", "certificates.commonName=north,certificates.dnsNames={in.example.org}")
    services, operator = found["region-grpc"]["spec"], found["region-operator"]["spec"]
    mounted = {
        each["secret"]["secretName"]
        for _, pod, _ in pods(render(OWN_SERVERS, *ISSUER))
        for each in pod["volumes"]
        if "secret" in each
    }
    assert {services["secretName"], operator["secretName"]} <= mounted
    assert (services["commonName"], operator["commonName"]) == ("north", "operator")
    assert operator["usages"][-1] == "client auth"
    assert "server auth" not in operator["usages"]
    for each in (services, operator):
        assert each["issuerRef"] == {
            "name": "ca",
            "kind": "ClusterIssuer",
            "group": "cert-manager.io",
        }
    names = services["dnsNames"]
    assert "in.example.org" in names
    assert {"region-ingest", "region-placement.default.svc", "region-watch.default"} <= set(names)


def test_every_address_that_a_pod_calls_is_a_name_of_the_certificate() -> None:
    names = made()["region-grpc"]["spec"]["dnsNames"]
    documents = render(OWN_SERVERS, *ISSUER, "--set", "services.rest.enabled=true")
    called = {
        variable["value"].rpartition(":")[0]
        for _, pod, _ in pods(documents)
        for container in pod["containers"]
        for variable in container.get("env", ())
        if variable["name"].endswith("_ADDRESS")
    }
    assert called
    assert called <= set(names)


def test_without_an_issuer_there_are_none() -> None:
    assert not named(render(OWN_SERVERS), "Certificate")


def test_an_installation_waits_for_no_certificate_that_comes_with_it() -> None:
    hook = preflight(render(OWN_SERVERS, *ISSUER))
    [grpc] = [each for each in hook["volumes"] if each["name"] == "grpc-tls"]
    assert grpc["secret"]["optional"] is True
    assert "authority" not in {each["name"] for each in hook["containers"]}
    later = preflight(render(OWN_SERVERS, *ISSUER, "--is-upgrade"))
    assert "authority" in {each["name"] for each in later["containers"]}


def preflight(documents: tuple[Document, ...]) -> Any:
    [found] = [pod for name, pod, _ in pods(documents) if name == "region-preflight"]
    return found


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        ("certificates.issuerRef.name=ca", "needs cert-manager"),
        ("certificates.duration=soon", "duration"),
        ("certificates.issuer=ca", "'issuer' not allowed"),
    ],
)
def test_what_cannot_work_is_refused(sets: str, words: str) -> None:
    assert words in refusal(sets, values=OWN_SERVERS)


def test_a_certificate_needs_the_name_of_its_secret() -> None:
    known = ("--api-versions", "cert-manager.io/v1")
    assert "grpc.tlsSecret is missing" in refusal(
        "certificates.issuerRef.name=ca", values=FIRST_TRY, known=known
    )

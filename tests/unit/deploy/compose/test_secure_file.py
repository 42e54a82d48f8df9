"""The secure compose file, held to the code that makes its credentials."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.security import Security
from deploy.compose import check
from deploy.local.kafka.broker import KafkaPorts, listener_properties
from shared.process.settings import Settings
from tests.unit.deploy.compose.test_compose_file import OURS, ROOT, SERVICES

FILE = yaml.safe_load((ROOT / "docker-compose.secure.yml").read_text())
SECURE: Mapping[str, Mapping[str, Any]] = FILE["services"]
HOLDERS = sorted({*check.SERVICES, *check.NOT_PLAYED, check.EMULATOR})
_OPERATOR = ROOT / "deploy/compose/operator.env"


@pytest.fixture(scope="module")
def handed_out(tmp_path_factory: pytest.TempPathFactory) -> Security:
    """Credentials, laid out as for containers."""
    folder = tmp_path_factory.mktemp("credentials")
    found = Security(folder, "demo")
    found.prepare()
    found.hand_out(folder)
    return found


def as_of(text: str, namespace: str) -> str:
    """A value as compose has it under a namespace."""
    return text.replace("${COPLACE_NAMESPACE:+${COPLACE_NAMESPACE}.}", f"{namespace}.")


def folder_of(security: Security, name: str) -> Path:
    return security.credentials.folder.parent / name


def is_same(here: str, value: str, folder: Path) -> bool:
    """Whether a container and this machine have the same settings, of files the content."""
    if here.startswith("/credentials/"):
        file = folder / Path(here).relative_to("/credentials")
        return file.read_bytes() == Path(value).read_bytes()
    return here == value


@pytest.mark.parametrize("name", HOLDERS)
def test_a_service_gets_what_a_secure_installation_sets(name: str, handed_out: Security) -> None:
    told = {key: as_of(str(value), "demo") for key, value in SECURE[name]["environment"].items()}
    own = folder_of(handed_out, name)
    for variable, value in handed_out.environment(name).items():
        if variable == "COPLACE_KAFKA_SASL_MECHANISM":
            continue  # as it is where nothing is said
        assert is_same(told.pop(variable), value, own), variable
    addresses = {
        f"COPLACE_{each}_ADDRESS"
        for each in ("INGEST", "ENERGY", "PLACEMENT", "WATCH", "HISTORY", "WEBHOOKS")
    }
    assert set(told) <= {"COPLACE_REDIS_URL", "COPLACE_GRPC_TOKEN_PORT", *addresses}
    if port := told.get("COPLACE_GRPC_TOKEN_PORT"):
        assert [each.rpartition(":")[2] for each in SECURE[name]["ports"]] == [str(port)]


@pytest.mark.parametrize("name", sorted({*HOLDERS, *check.SERVERS}))
def test_a_container_mounts_its_own_credentials_alone(name: str) -> None:
    assert SECURE[name]["volumes"] == [f"credentials-{name}:/credentials:ro"]
    assert f"credentials-{name}:/credentials/{name}" in SECURE[check.CREDENTIALS]["volumes"]
    assert f"credentials-{name}" in FILE["volumes"]


@pytest.mark.parametrize("name", sorted(set(SECURE) - {check.CREDENTIALS}))
def test_nobody_starts_before_there_are_credentials(name: str) -> None:
    waits = SECURE[name]["depends_on"][check.CREDENTIALS]
    assert waits == {"condition": "service_completed_successfully"}


def test_every_container_but_those_that_observe_has_credentials() -> None:
    assert set(SECURE) == {*OURS, *check.SERVERS, check.CREDENTIALS}
    assert {*HOLDERS, check.TOPICS, *check.OF_A_SITE} == OURS
    for name in (check.CREDENTIALS, check.TOPICS):  # who sees all of them is root without rights
        service = {**SERVICES.get(name, {}), **SECURE[name]}
        assert (service["user"], service["read_only"]) == ("0", True)
        assert service["cap_drop"] == ["ALL"]


def test_kafka_asks_for_what_a_local_secure_one_asks(handed_out: Security) -> None:
    local = dict(listener_properties(KafkaPorts(1, 2, 3), handed_out.credentials))
    environment = SECURE["kafka"]["environment"]
    # Compose takes a single $ for a variable of its own.
    told = {property_of(name): str(v).replace("$$", "$") for name, v in environment.items()}
    assert "$/$1/" in told["ssl.principal.mapping.rules"]
    for name in ("ssl.keystore.location", "ssl.truststore.location"):
        file = folder_of(handed_out, "kafka") / Path(told.pop(name)).name
        assert file.read_text() == Path(str(local.pop(name))).read_text()
    scram = local.pop("listener.name.clients.scram-sha-512.sasl.jaas.config")
    for listener in ("inside", "host"):
        assert told.pop(f"listener.name.{listener}.scram-sha-512.sasl.jaas.config") == scram
    protocols = {"INSIDE:SASL_SSL", "HOST:SASL_SSL", "INTERNAL:SSL", "CONTROLLER:SSL"}
    assert set(told.pop("listener.security.protocol.map").split(",")) == protocols
    for properties in (local, told):
        for name in ("listeners", "advertised.listeners", "controller.quorum.voters"):
            properties.pop(name, None)
        properties.pop("listener.security.protocol.map", None)
    assert told == local


def property_of(variable: str) -> str:
    """As the image of Kafka reads its environment."""
    name = variable.removeprefix("KAFKA_").replace("___", "-").replace("_", ".")
    return name.lower()


def test_redis_speaks_tls_alone_and_knows_the_users_of_its_file(handed_out: Security) -> None:
    words = SECURE["redis"]["command"][1:]
    told = dict(zip(words[::2], words[1::2], strict=True))
    for option, value in handed_out.redis.options(6379).items():
        assert is_same(told.pop(f"--{option}"), value, folder_of(handed_out, "redis")), option
    assert told == {"--appendonly": "yes", "--save": ""}


def test_the_operator_of_the_host_is_who_the_how_to_says(handed_out: Security) -> None:
    shell = f"set -a && source {_OPERATOR} && env"
    done = subprocess.run(
        ["bash", "-c", shell],
        cwd=folder_of(handed_out, ""),
        env={"PATH": os.environ["PATH"], "COPLACE_NAMESPACE": "demo"},
        capture_output=True,
        text=True,
        check=True,
    )
    told = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    for variable, value in handed_out.environment("operator").items():
        if variable.endswith("_FILE"):
            assert (folder_of(handed_out, told[variable])).read_text() == Path(value).read_text()
        elif variable != "COPLACE_KAFKA_SASL_MECHANISM":
            assert told[variable] == value
    assert Settings.model_fields["kafka_sasl_mechanism"].default == "SCRAM-SHA-512"


def test_a_client_is_handed_what_is_its_own(handed_out: Security) -> None:
    handed_out.add_client("north", "resource-manager")
    handed_out.prepare()
    handed_out.hand_out(folder_of(handed_out, ""))
    names = {file.name for file in folder_of(handed_out, "north").iterdir()}
    assert names == {"ca.pem", "certificate.pem", "password"}

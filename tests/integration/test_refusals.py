"""What does not fit between a process and its servers is one line of error, within seconds: a wrong
password, a certificate that nobody believes, has expired or is not valid yet, a missing rule."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from threading import Timer
from typing import Final

import grpc
import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACLFilter, ResourcePatternFilter

from coplace_client.tls import TlsFiles, grpc_problem, own_certificate_problem
from deploy.local.credentials import Identity
from deploy.local.ports import free_ports
from shared.catalogue.access.kafka import acl_of, ensure_acls
from shared.catalogue.access.rules import AclRule, Operation, Resource
from shared.process.redis_client import redis_client
from shared.process.refusals import redis_problem
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.refusals import kafka_problem
from tests.support.patience import PATIENCE_S
from tests.support.secured import FUTURE, PAST, Secured, dated, stranger


@pytest.fixture
def other(tmp_path: Path) -> Identity:
    """A certificate that is right in all but who signed it."""
    found = stranger(tmp_path / "stranger")
    return Identity(found.identity("stranger").certificate, found.identity("stranger").key)


@pytest.fixture
def wrong_password(tmp_path: Path) -> Path:
    file = tmp_path / "wrong.password"
    file.write_text("not-the-password\n")
    return file


def changed(settings: Settings, **values: object) -> Settings:
    """Some of the settings otherwise."""
    return settings.model_copy(update=values)


def told(service: str, environment: Mapping[str, str], word: str) -> str:
    """The first line in which a service that cannot start says so, and that it does within time."""
    inherited = {name: value for name, value in os.environ.items() if "COPLACE_" not in name}
    with subprocess.Popen(
        [sys.executable, "-m", service],
        env={**inherited, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        watch = Timer(PATIENCE_S, process.kill)
        watch.start()
        try:
            for line in process.stdout:
                if word in line:
                    found = json.loads(line)
                    assert "exception" not in found
                    return str(found.get("waiting_for") or found["problem"])
        finally:
            watch.cancel()
            process.kill()
    raise AssertionError(f"{service} does not say {word} within {PATIENCE_S} s")


def test_kafka_with_a_wrong_password(secured: Secured, wrong_password: Path) -> None:
    environment = secured.environment("pricing")
    environment["COPLACE_KAFKA_SASL_PASSWORD_FILE"] = str(wrong_password)
    assert told("services.pricing", environment, "refuses") == (
        f"Kafka at {secured.servers.kafka_bootstrap} refuses user pricing with the password of "
        "COPLACE_KAFKA_SASL_PASSWORD_FILE"
    )


def test_a_new_password_is_believed_once_kafka_has_it(secured: Secured) -> None:
    credentials = secured.security.credentials
    file = credentials.password_file("operator")
    first = file.read_text()
    for password in ("another\n", "one-more\n", first):
        credentials.write(file, password)
        secured.security.provision(secured.servers)
        assert asyncio.run(kafka_problem(secured.settings("operator"))) == ""


def test_kafka_of_another_authority(secured: Secured, other: Identity) -> None:
    environment = secured.environment("pricing")
    environment["COPLACE_KAFKA_CA_FILE"] = str(other.certificate.parent / "ca.pem")
    assert told("services.pricing", environment, "did not sign") == (
        f"Kafka at {secured.servers.kafka_bootstrap} shows a certificate that "
        f"COPLACE_KAFKA_CA_FILE={environment['COPLACE_KAFKA_CA_FILE']} did not sign"
    )


@pytest.mark.parametrize(
    ("dates", "said"), [(PAST, "that has expired"), (FUTURE, "that is not valid yet")]
)
async def test_a_kafka_whose_certificate_is_out_of_date(
    secured: Secured, tmp_path: Path, dates: tuple[str, str], said: str
) -> None:
    """A real broker takes none by its configuration: TLS is the same, by a server of openssl."""
    made = dated(secured.security.credentials, "kafka", dates, tmp_path / "dated")
    [port] = free_ports(1)
    options = ("-accept", str(port), "-cert", made.certificate, "-key", made.key, "-quiet")
    with subprocess.Popen(["openssl", "s_server", *map(str, options)]) as server:
        try:
            settings = changed(secured.settings("pricing"), kafka_bootstrap=f"127.0.0.1:{port}")
            await listens(port)
            problem = await kafka_problem(settings)
        finally:
            server.kill()
    assert problem.startswith(f"Kafka at 127.0.0.1:{port} shows a certificate {said}")


async def listens(port: int) -> None:
    """Return when something does."""
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


RULES: Final = {
    "topic": AclRule("pricing", Resource.TOPIC, "prices.charges", Operation.WRITE),
    "group": AclRule("pricing", Resource.GROUP, "pricing", Operation.READ),
    "id": AclRule(
        "pricing", Resource.TRANSACTIONAL_ID, "pricing.", Operation.WRITE, is_prefix=True
    ),
}


@pytest.fixture
def admin(secured: Secured) -> Iterator[KafkaAdminClient]:
    """Who may take rules away, and has them back in the end."""
    client = KafkaAdminClient(**Deployment.from_settings(secured.settings("operator")).connection)
    yield client
    ensure_acls(client, secured.access)
    client.close()


@pytest.mark.parametrize("what", RULES)
def test_a_rule_that_kafka_lacks(secured: Secured, admin: KafkaAdminClient, what: str) -> None:
    acl = acl_of(RULES[what])
    resource = acl.resource_pattern
    pattern = ResourcePatternFilter(
        resource.resource_type, resource.resource_name, resource.pattern_type
    )
    admin.delete_acls(
        [ACLFilter(acl.principal, acl.host, acl.operation, acl.permission_type, pattern)]
    )
    problem = told("services.pricing", secured.environment("pricing"), "does not allow")
    assert problem.startswith(
        f"Kafka at {secured.servers.kafka_bootstrap} does not allow "
        "COPLACE_KAFKA_SASL_USERNAME=pricing that: "
    )
    assert "`coplace doctor`" in problem


def test_redis_with_a_wrong_password(secured: Secured, wrong_password: Path) -> None:
    environment = secured.environment("energy-api")
    environment["COPLACE_REDIS_PASSWORD_FILE"] = str(wrong_password)
    address = secured.servers.redis_url.removeprefix("rediss://")
    assert told("services.energy.api", environment, "refuses") == (
        f"Redis at {address} refuses user energy-api with the password of "
        "COPLACE_REDIS_PASSWORD_FILE"
    )


def test_redis_of_another_authority(secured: Secured, other: Identity) -> None:
    environment = secured.environment("energy-api")
    environment["COPLACE_REDIS_CA_FILE"] = str(other.certificate.parent / "ca.pem")
    address = secured.servers.redis_url.removeprefix("rediss://")
    assert told("services.energy.api", environment, "did not sign") == (
        f"Redis at {address} shows a certificate that "
        f"COPLACE_REDIS_CA_FILE={environment['COPLACE_REDIS_CA_FILE']} did not sign"
    )


@pytest.mark.parametrize(
    ("dates", "said"), [(PAST, "that has expired"), (FUTURE, "that is not valid yet")]
)
async def test_a_redis_whose_certificate_is_out_of_date(
    secured: Secured, tmp_path: Path, dates: tuple[str, str], said: str
) -> None:
    right = secured.security.credentials.identity("redis")
    wrong = dated(secured.security.credentials, "redis", dates, tmp_path / "dated")
    async with redis_client(secured.settings("operator")) as operator:
        await use(operator, wrong)
        try:
            assert said in await redis_said(secured.settings("accounts"))
        finally:
            await use(operator, right)
    assert await redis_said(secured.settings("accounts")) == ""


async def use(operator: object, identity: Identity) -> None:
    """Let a Redis that runs show another certificate."""
    certificate, key = map(str, identity)
    await operator.config_set(  # type: ignore[attr-defined]
        "tls-cert-file", certificate, "tls-key-file", key
    )


async def redis_said(settings: Settings) -> str:
    """The error of an attempt to speak to it."""
    from redis.exceptions import RedisError

    async with redis_client(settings) as redis:
        try:
            await redis.ping()
        except RedisError as error:
            return redis_problem(settings, error)
    return ""


async def test_a_rule_that_redis_lacks(secured: Secured) -> None:
    settings = secured.settings("energy-api")
    async with redis_client(settings) as redis:
        with pytest.raises(Exception, match="permissions") as error:
            await redis.set("appdb:signatures", "x")
    address = settings.redis_url.removeprefix("rediss://")
    problem = redis_problem(settings, error.value)
    assert problem.startswith(f"Redis at {address} refuses user energy-api: ")


@pytest.mark.parametrize(
    ("dates", "said"), [(PAST, "has expired"), (FUTURE, "is not valid before")]
)
def test_a_service_with_a_certificate_out_of_date(
    secured: Secured, tmp_path: Path, dates: tuple[str, str], said: str
) -> None:
    made = dated(secured.security.credentials, "energy-api", dates, tmp_path / "dated")
    environment = secured.environment("energy-api")
    environment["COPLACE_GRPC_CERT_FILE"] = str(made.certificate)
    environment["COPLACE_GRPC_KEY_FILE"] = str(made.key)
    problem = told("services.energy.api", environment, "cannot start")
    assert problem.startswith("gRPC on 127.0.0.1:0: COPLACE_GRPC_CERT_FILE=")
    assert said in problem


def test_a_certificate_and_a_key_that_do_not_belong_together(
    secured: Secured, other: Identity
) -> None:
    files = TlsFiles.of(changed(secured.settings("energy-api"), grpc_key_file=other.key), "grpc")
    assert "are not a certificate and its key" in own_certificate_problem(files)
    torn = other.certificate.with_name("torn.pem")
    shutil.copy(other.certificate, torn)
    torn.write_text(torn.read_text()[:100])
    assert "are not a certificate and its key" in own_certificate_problem(
        files._replace(certificate=torn, key=other.key)
    )


@pytest.fixture
async def serving(secured: Secured) -> AsyncIterator[tuple[grpc.aio.Server, str]]:
    """A gRPC server that wants certificates of the authority."""
    certificate, key = secured.security.credentials.identity("ingest")
    server, address = await serve(secured, Identity(certificate, key))
    yield server, address
    await server.stop(0)


async def serve(secured: Secured, identity: Identity) -> tuple[grpc.aio.Server, str]:
    """Listen with a certificate, whatever it is."""
    pair = (identity.key.read_bytes(), identity.certificate.read_bytes())
    authority = secured.security.credentials.authority.read_bytes()
    server = grpc.aio.server()
    port = server.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials([pair], authority, require_client_auth=True)
    )
    await server.start()
    return server, f"127.0.0.1:{port}"


async def said_of(settings: Settings, address: str) -> str:
    """The output of a command."""
    return await asyncio.to_thread(grpc_problem, settings, address)


async def test_grpc_of_another_authority_on_either_side(
    secured: Secured, other: Identity, serving: tuple[grpc.aio.Server, str]
) -> None:
    _, address = serving
    operator = secured.settings("operator")
    assert await said_of(operator, address) == ""
    authority = other.certificate.parent / "ca.pem"
    assert await said_of(changed(operator, grpc_ca_file=authority), address) == (
        f"{address} shows a certificate that COPLACE_GRPC_CA_FILE={authority} did not sign"
    )
    stranger = changed(operator, grpc_cert_file=other.certificate, grpc_key_file=other.key)
    assert f"COPLACE_GRPC_CERT_FILE={other.certificate}" in await said_of(stranger, address)
    nobody = changed(operator, grpc_cert_file=None, grpc_key_file=None)
    assert await said_of(nobody, address) in (
        f"{address} ends the connection when it sees that we show no certificate",
        f"{address} wants a certificate of ours: set COPLACE_GRPC_CERT_FILE and _KEY_FILE",
    )


@pytest.mark.parametrize(
    ("dates", "said"), [(PAST, "that has expired"), (FUTURE, "that is not valid yet")]
)
async def test_a_grpc_server_whose_certificate_is_out_of_date(
    secured: Secured, tmp_path: Path, dates: tuple[str, str], said: str
) -> None:
    made = dated(secured.security.credentials, "ingest", dates, tmp_path / "dated")
    server, address = await serve(secured, made)
    try:
        problem = await said_of(secured.settings("operator"), address)
    finally:
        await server.stop(0)
    assert problem.startswith(f"{address} shows a certificate {said}")


def test_a_server_that_is_away_is_no_refusal(secured: Secured) -> None:
    [port] = free_ports(1)
    settings = changed(secured.settings("operator"), kafka_bootstrap=f"127.0.0.1:{port}")
    assert asyncio.run(kafka_problem(settings)) == ""
    assert grpc_problem(settings, f"127.0.0.1:{port}") == ""

"""Settings come from the environment and are really passed on."""

import ssl
from pathlib import Path

import pytest

from coplace_client.channels import grpc_channel_credentials
from coplace_client.errors import WrongSettingsError
from shared.domain.rounds import RoundSource
from shared.process.grpc_security import grpc_server_credentials
from shared.process.security import kafka_options, redis_options
from shared.process.settings import Settings


def test_every_setting_is_documented() -> None:
    undocumented = [name for name, f in Settings.model_fields.items() if not f.description]
    assert undocumented == []


def test_settings_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPLACE_ROUNDS", "barriers")
    monkeypatch.setenv("COPLACE_NAMESPACE", "demo-1")
    found = Settings()
    assert (found.rounds, found.namespace) == (RoundSource.BARRIERS, "demo-1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COPLACE_ROUNDS", "sometimes"),
        ("COPLACE_KAFKA_PARTITIONS", "-1"),
        ("COPLACE_NAMESPACE", "a b"),
        ("COPLACE_KAFKA_CERT_FILE", "/cert.pem"),
        ("COPLACE_KAFKA_SECURITY_PROTOCOL", "SASL_SSL"),
    ],
)
def test_a_setting_that_cannot_work_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(WrongSettingsError, match=r"(?i)rounds|partitions|namespace|cert|sasl"):
        Settings()


def test_plain_kafka_needs_no_more_than_its_address() -> None:
    options = kafka_options(Settings(kafka_bootstrap="a:1,b:2"))
    assert options == {"bootstrap_servers": ["a:1", "b:2"], "security_protocol": "PLAINTEXT"}


def test_sasl_over_tls_is_passed_to_the_kafka_clients() -> None:
    options = kafka_options(
        Settings.model_validate(
            {
                "kafka_security_protocol": "SASL_SSL",
                "kafka_sasl_mechanism": "SCRAM-SHA-256",
                "kafka_sasl_username": "coplace",
                "kafka_sasl_password": "secret",
            }
        )
    )
    assert isinstance(options["ssl_context"], ssl.SSLContext)
    assert options["ssl_context"].verify_mode is ssl.CERT_REQUIRED
    assert options["sasl_mechanism"] == "SCRAM-SHA-256"
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("coplace", "secret")


def test_the_password_does_not_show_in_the_settings() -> None:
    found = Settings.model_validate({"kafka_sasl_password": "secret"})
    assert "secret" not in repr(found)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """The file of an authority's certificate."""
    file = tmp_path / "ca.pem"
    file.touch()
    return file


def test_redis_certificates_are_passed_on(authority: Path) -> None:
    assert redis_options(Settings()) == {}
    assert redis_options(Settings(redis_ca_file=authority)) == {"ssl_ca_certs": str(authority)}


def test_a_file_that_is_not_there_is_reported_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = tmp_path / "ca.pem"
    monkeypatch.setenv("COPLACE_REDIS_CA_FILE", str(missing))
    with pytest.raises(WrongSettingsError, match=f"COPLACE_REDIS_CA_FILE={missing}: .* file"):
        Settings()


def test_grpc_without_certificates_is_plain_text() -> None:
    assert grpc_server_credentials(Settings()) is None
    assert grpc_channel_credentials(Settings()) is None


def test_a_server_that_shall_check_its_clients_needs_a_certificate_itself(
    authority: Path,
) -> None:
    with pytest.raises(ValueError, match="grpc_cert_file"):
        grpc_server_credentials(Settings(grpc_ca_file=authority))

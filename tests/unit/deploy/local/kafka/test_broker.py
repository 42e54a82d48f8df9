from pathlib import Path

import pytest

from deploy.local.credentials import Credentials
from deploy.local.kafka.broker import KAFKA, KafkaPorts, listener_properties, server_properties


def test_the_broker_takes_the_largest_payload_with_its_headers() -> None:
    properties = server_properties(Path("/data"), payload_bytes=1_048_576)
    assert int(properties["message.max.bytes"]) > 1_048_576
    assert properties["replica.fetch.max.bytes"] == properties["message.max.bytes"]


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    found = Credentials(tmp_path / "credentials")
    found.create()
    found.certify(KAFKA, KAFKA, serves=True)
    return found


def test_the_broker_listens_on_loopback_alone(credentials: Credentials) -> None:
    for given in (None, credentials):
        listeners = listener_properties(KafkaPorts(9092, 9093, 9094), given)["listeners"]
        hosts = {listener.split("://")[1].split(":")[0] for listener in listeners.split(",")}
        assert hosts == {"127.0.0.1"}


def test_a_secure_broker_has_no_listener_that_believes_anybody(credentials: Credentials) -> None:
    properties = listener_properties(KafkaPorts(9092, 9093, 9094), credentials)
    protocols = dict(
        one.split(":") for one in properties["listener.security.protocol.map"].split(",")
    )
    assert {one.split("://")[0] for one in properties["listeners"].split(",")} == set(protocols)
    for name, protocol in protocols.items():
        shows = properties.get(f"listener.name.{name.lower()}.ssl.client.auth")
        assert protocol == "SASL_SSL" or (protocol, shows) == ("SSL", "required")

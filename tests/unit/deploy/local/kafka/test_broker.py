from pathlib import Path

from deploy.local.kafka.broker import server_properties


def test_the_broker_takes_the_largest_payload_with_its_headers() -> None:
    properties = server_properties(Path("/data"), 9092, 9093, payload_bytes=1_048_576)
    assert int(properties["message.max.bytes"]) > 1_048_576
    assert properties["replica.fetch.max.bytes"] == properties["message.max.bytes"]


def test_the_broker_listens_on_loopback_alone() -> None:
    properties = server_properties(Path("/data"), 9092, 9093, payload_bytes=1)
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"

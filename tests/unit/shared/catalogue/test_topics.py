"""The topic files: complete, consistent, and with examples that decode."""

import orjson
import pytest
from google.protobuf import json_format

from shared.catalogue.codec import Codec
from shared.catalogue.record import Record
from shared.catalogue.schemas import MESSAGES
from shared.catalogue.topics import Topics, TopicSpec, load_topics, partition_of

SPECS = load_topics()
CODEC = Codec(Topics())


def golden(spec: TopicSpec) -> Record:
    """The example as a record of its topic."""
    key = spec.example["key"]
    headers = tuple((name, text.encode()) for name, text in spec.example["headers"].items())
    message = MESSAGES[spec.example["headers"]["ce_type"]]()
    json_format.ParseDict(spec.example["value"], message)
    place = CODEC.topics.partition_of(spec.name, key)
    return Record(place, 0, key.encode(), message.SerializeToString(), headers)


@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if spec.messages])
def test_the_golden_example_decodes_to_what_it_says(name: str) -> None:
    spec = SPECS[name]
    event = CODEC.decode(golden(spec))
    assert event.id == spec.example["headers"]["ce_id"]
    assert event.type == spec.example["headers"]["ce_type"]
    assert json_format.MessageToDict(event.payload) == json_format.MessageToDict(
        json_format.ParseDict(spec.example["value"], MESSAGES[event.type]())
    )


def test_every_file_is_named_after_its_topic_and_lists_known_messages() -> None:
    for name, spec in SPECS.items():
        assert spec.name == name
        value = spec.example["value"]
        assert spec.messages or orjson.loads(orjson.dumps(value)) == value
        assert set(spec.messages) <= set(MESSAGES)
        for message, template in spec.messages.items():
            assert set(template.fields) <= set(MESSAGES[message].DESCRIPTOR.fields_by_name)
    assert SPECS["prices.charges"].retention_s is None
    assert SPECS["placement.inputs"].retention_s is None


def test_a_deployment_replaces_every_partition_count_but_1() -> None:
    topics = Topics(kafka_partitions=4)
    assert topics.kafka_partitions("jobs.events") == 4
    assert topics.kafka_partitions("dlq.jobs.events") == 4
    assert topics.kafka_partitions("placement.inputs") == 1
    assert Topics().kafka_partitions("jobs.events") == 12
    with pytest.raises(ValueError, match=r"unknown topic nowhere: "):
        topics.spec("nowhere")


@pytest.mark.parametrize(
    ("key", "murmur2"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)],
)
def test_a_key_lies_where_the_java_client_puts_it(key: bytes, murmur2: int) -> None:
    """The hashes are those of UtilsTest.testMurmur2 in Apache Kafka."""
    assert partition_of(key, 12) == (murmur2 & 0x7FFFFFFF) % 12

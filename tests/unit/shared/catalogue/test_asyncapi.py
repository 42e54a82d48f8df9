"""The AsyncAPI document says all that the topic files say and refers to nothing missing."""

from collections.abc import Iterator
from typing import Any

from shared.catalogue.asyncapi import document
from shared.catalogue.topics import load_topics

DOCUMENT = document()


def references(node: Any) -> Iterator[str]:
    """Every $ref below a node."""
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for child in node.values():
            yield from references(child)
    if isinstance(node, list):
        for child in node:
            yield from references(child)


def resolve(reference: str) -> Any:
    """What a local reference points to."""
    node: Any = DOCUMENT
    for step in reference.removeprefix("#/").split("/"):
        node = node[step]
    return node


def test_every_reference_resolves() -> None:
    found = list(references(DOCUMENT))
    assert found
    for reference in found:
        assert resolve(reference)


def test_every_topic_is_a_channel_with_its_messages() -> None:
    for name, spec in load_topics().items():
        channel = DOCUMENT["channels"][name]
        assert channel["bindings"]["kafka"]["partitions"] == spec.kafka_partitions
        assert set(channel["messages"]) == set(spec.messages or {"json"})


def test_every_producer_sends_and_every_consumer_receives() -> None:
    operations = DOCUMENT["operations"]
    assert operations["pricing.receive.jobs.events"]["action"] == "receive"
    assert operations["pricing.send.prices.charges"]["action"] == "send"


def test_the_schema_of_a_message_has_its_fields_in_json_form() -> None:
    properties = DOCUMENT["components"]["schemas"]["coplace.v1.JobSubmitted"]["properties"]
    assert properties["submittedAtUs"] == {"type": "string", "format": "int64"}
    assert properties["shareable"] == {"type": "boolean"}
    resources = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert properties["resourcesPerUnit"] == resources
    samples = DOCUMENT["components"]["schemas"]["coplace.v1.NodeSamples"]["properties"]["samples"]
    assert samples == {
        "type": "array",
        "items": {"$ref": "#/components/schemas/coplace.v1.NodeSample"},
    }

"""The AsyncAPI document says all that the topic files say and refers to nothing missing."""

from collections.abc import Iterator
from functools import reduce
from operator import getitem
from typing import Any

from cli.stages import topics_in_use
from shared.catalogue.asyncapi import document
from shared.catalogue.topics import load_topics

DOCUMENT = document(topics_in_use())


def references(node: Any) -> Iterator[str]:
    """Every $ref below a node."""
    if isinstance(node, dict) and "$ref" in node:
        yield node["$ref"]
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for child in children:
        yield from references(child)


def test_every_reference_resolves() -> None:
    found = list(references(DOCUMENT))
    assert found
    for reference in found:
        assert reduce(getitem, reference.removeprefix("#/").split("/"), DOCUMENT)


def test_every_topic_is_a_channel_with_its_messages() -> None:
    for name, spec in load_topics().items():
        channel = DOCUMENT["channels"][name]
        assert channel["bindings"]["kafka"]["partitions"] == spec.kafka_partitions
        assert set(channel["messages"]) == set(spec.messages or {"json"})
    operations = DOCUMENT["operations"]
    assert operations["pricing.receive.jobs.events"]["action"] == "receive"
    assert operations["pricing.send.prices.charges"]["action"] == "send"

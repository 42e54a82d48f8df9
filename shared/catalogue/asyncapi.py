"""The AsyncAPI 3.0 document of the topics, made from their files and the protobuf messages.

https://www.asyncapi.com/docs/reference/specification/v3.0.0
"""

from collections.abc import Iterator, Mapping
from typing import Any

from shared.catalogue.json_schema import schemas
from shared.catalogue.topics import TopicSpec

_JSON = "application/json"
_PROTOBUF = "application/protobuf"

_HEADERS = {
    "type": "object",
    "required": ["ce_id", "ce_type", "ce_source", "ce_time"],
    "properties": {
        "ce_id": {"type": "string", "description": "A natural key; copies carry the same one."},
        "ce_type": {"type": "string", "description": "Full name of the protobuf message."},
        "ce_source": {"type": "string"},
        "ce_time": {"type": "string", "format": "date-time"},
        "traceparent": {"type": "string", "description": "W3C Trace Context."},
    },
}


def document(topics: Mapping[str, TopicSpec], version: str = "0.1.0") -> dict[str, Any]:
    """Return the document as JSON-like data; `version` is that of the project."""
    specs = topics.values()
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Coplace",
            "version": version,
            "description": "Topics of the Coplace region, without the namespace's prefix.",
        },
        "defaultContentType": _PROTOBUF,
        "channels": {spec.name: _channel(spec) for spec in specs},
        "operations": {name: operation for spec in specs for name, operation in _operations(spec)},
        "components": {
            "messages": {name: _message(name) for spec in specs for name in spec.messages},
            "schemas": schemas("#/components/schemas/"),
        },
    }


def _channel(spec: TopicSpec) -> dict[str, Any]:
    retention_ms = -1 if spec.retention_s is None else spec.retention_s * 1_000
    return {
        "address": spec.name,
        "description": spec.description,
        "messages": _messages(spec),
        "bindings": {
            "kafka": {
                "topic": spec.name,
                "partitions": spec.kafka_partitions,
                "topicConfiguration": {
                    "cleanup.policy": [spec.cleanup.value],
                    "retention.ms": retention_ms,
                },
                "bindingVersion": "0.5.0",
            }
        },
    }


def _messages(spec: TopicSpec) -> dict[str, Any]:
    if not spec.messages:
        payload = {"type": "object", "examples": [spec.example["value"]]}
        return {"json": {"contentType": _JSON, "payload": payload}}
    return {name: {"$ref": f"#/components/messages/{name}"} for name in spec.messages}


def _message(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "contentType": _PROTOBUF,
        "headers": _HEADERS,
        "payload": {"$ref": f"#/components/schemas/{name}"},
    }


def _operations(spec: TopicSpec) -> Iterator[tuple[str, dict[str, Any]]]:
    for action, services in (("send", spec.producers), ("receive", spec.consumers)):
        for service in services:
            channel = {"$ref": f"#/channels/{spec.name}"}
            yield f"{service}.{action}.{spec.name}", {"action": action, "channel": channel}

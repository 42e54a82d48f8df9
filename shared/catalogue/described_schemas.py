"""JSON Schemas of messages with the comments of their protos, and of all that they refer to."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from shared.catalogue.comments import comments
from shared.catalogue.json_schema import schemas
from shared.catalogue.schemas import MESSAGES


def described_schemas(names: Iterable[str], base: str) -> dict[str, dict[str, Any]]:
    """Return the schemas of messages by their full names, and those of the messages that these
    refer to by `base` and a name."""
    every, found, wanted = _every(base), dict[str, dict[str, Any]](), sorted(set(names))
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = _described(name, every[name])
            wanted += references(every[name], base)
    return dict(sorted(found.items()))


def references(schema: object, base: str) -> list[str]:
    """Return the names of the messages that are referred to in JSON-like data."""
    return sorted(set(re.findall(rf"{re.escape(base)}([\w.]+)", str(schema))))


@cache
def _every(base: str) -> Mapping[str, Mapping[str, Any]]:
    return schemas(base)


def _described(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with the comments of the message and its fields."""
    said = comments()
    fields = {field.json_name: field.full_name for field in MESSAGES[name].DESCRIPTOR.fields}
    properties = {
        field: {**of_field, **_description(said.get(fields[field], ""))}
        for field, of_field in schema["properties"].items()
    }
    return {**schema, "properties": properties, **_description(said.get(name, ""))}


def _description(text: str) -> dict[str, str]:
    return {"description": text} if text else {}

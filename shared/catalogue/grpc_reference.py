"""The reference of what answers over gRPC, as Markdown: services, methods, messages, fields."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    MethodDescriptor,
)

from shared.catalogue.comments import comments
from shared.catalogue.json_schema import schemas
from shared.catalogue.options import http_rule_of
from shared.catalogue.schemas import service_descriptors

_BASE: Final = "#"
_HEAD: Final = """\
# gRPC reference

`coplace grpc-reference` prints this page from the protos in `proto/coplace/v1`. How to call the
services is in [gRPC](how-to/grpc.md) and [HTTP and JSON](how-to/rest.md).

A field that must be there, or lie within bounds, says so. What breaks this is refused with every
such field at once.
"""


def reference() -> str:
    """Return the page."""
    services = sorted(service_descriptors(), key=lambda each: each.name)
    lines = [_HEAD]
    for service in services:
        lines += [f"## {service.name}\n", f"{_comment(service.full_name)}\n"]
        lines += [*_methods(service.methods), ""]
    types = _types(method for service in services for method in service.methods)
    lines += ["## Messages\n"]
    of_json = schemas(_BASE)
    for name in sorted(types):
        found = types[name]
        is_enum = isinstance(found, EnumDescriptor)
        lines += [*(_enum(found) if is_enum else _message(found, of_json[name])), ""]
    return "\n".join(lines).rstrip() + "\n"


def _methods(methods: Iterable[MethodDescriptor]) -> Iterator[str]:
    yield "| Method | Request | Answer | HTTP | |"
    yield "|---|---|---|---|---|"
    for method in methods:
        asked = f"{_stream(method.client_streaming)}{_link(method.input_type)}"
        answer = f"{_stream(method.server_streaming)}{_link(method.output_type)}"
        rule = http_rule_of(method)
        route = f"`{rule.verb} {rule.path}`" if rule else ""
        yield f"| `{method.name}` | {asked} | {answer} | {route} | {_comment(method.full_name)} |"


def _stream(is_stream: bool) -> str:
    return "stream of " if is_stream else ""


def _types(methods: Iterable[MethodDescriptor]) -> Mapping[str, Any]:
    """Return the messages and enums that methods need, by their full names."""
    found: dict[str, Any] = {}
    wanted: list[Any] = [each for m in methods for each in (m.input_type, m.output_type)]
    while wanted:
        one = wanted.pop()
        if one.full_name in found or one.full_name.startswith("google."):
            continue
        if isinstance(one, EnumDescriptor):
            found[one.full_name] = one
            continue
        if not one.GetOptions().map_entry:
            found[one.full_name] = one
        wanted += [each for f in one.fields if (each := f.message_type or f.enum_type) is not None]
    return found


def _message(message: Descriptor, of_json: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `{message.name}`\n"
    if text := _comment(message.full_name):
        yield f"{text}\n"
    if not message.fields:
        yield "It has no fields."
        return
    yield "| Field | Type | Must be | |"
    yield "|---|---|---|---|"
    required = of_json.get("required", ())
    for field in message.fields:
        must = _must(of_json["properties"][field.json_name], field.json_name in required)
        cells = (f"`{field.name}` = {field.number}", _type(field), must)
        yield f"| {' | '.join(cells)} | {_comment(field.full_name)} |"


def _enum(enum: EnumDescriptor) -> Iterator[str]:
    yield f"### `{enum.name}`\n"
    if text := _comment(enum.full_name):
        yield f"{text}\n"
    yield "| Value | |"
    yield "|---|---|"
    scope = enum.full_name
    for value in enum.values:
        yield f"| `{value.name}` = {value.number} | {_comment(f'{scope}.{value.name}')} |"


def _must(schema: Mapping[str, Any], is_required: bool) -> str:
    """Return what a value must be, in a few words."""
    one = schema.get("items", schema)
    found = ["there"] if is_required else []
    if "minimum" in one:
        found.append(f"{one['minimum']:g} to {one['maximum']:g}")
    if "maxLength" in one:
        found.append(f"at most {one['maxLength']} characters")
    if "maxItems" in schema:
        found.append(f"at most {schema['maxItems']}")
    return ", ".join(found)


def _type(field: FieldDescriptor) -> str:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"map of {_one_type(key)} to {_one_type(value)}"
    return f"{'list of ' if field.is_repeated else ''}{_one_type(field)}"


def _one_type(field: FieldDescriptor) -> str:
    named = field.message_type or field.enum_type
    return _link(named) if named is not None else _SCALARS[field.type]


def _link(named: Any) -> str:
    return f"[`{named.name}`](#{named.name.lower()})"


_SCALARS: Final = {
    getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name
    for name in (
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
    )
}


def _comment(name: str) -> str:
    return comments().get(name, "").replace("|", "\\|")

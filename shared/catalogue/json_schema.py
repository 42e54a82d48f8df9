"""JSON Schemas of the messages in their JSON form, with what their fields must be.

https://json-schema.org/draft/2020-12, https://protobuf.dev/programming-guides/json/
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from coplace.v1.options_pb2 import (
    ENUM_CHECK_REQUIRED,
    TIME_CHECK_REQUIRED,
    FieldCheck,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from coplace_client.bounds import LENGTHS, QUANTITIES
from shared.catalogue.contents.compiled import LONGEST, OR_EMPTY
from shared.catalogue.options import check_of
from shared.catalogue.schemas import MESSAGES, descriptor_of

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
# What the JSON form writes for numbers that are not finite.
_NOT_FINITE: Final = "^(NaN|-?Infinity)$"
_INTEGER: Final = {"type": "integer"}
# JSON has no whole numbers of 64 bits.
_TEXT_INTEGER: Final = {"type": "string", "format": "int64"}
_SCALARS: Final[Mapping[int, Mapping[str, Any]]] = {
    FieldDescriptor.TYPE_DOUBLE: {"type": "number", "format": "double"},
    FieldDescriptor.TYPE_FLOAT: {"type": "number", "format": "float"},
    FieldDescriptor.TYPE_INT32: _INTEGER,
    FieldDescriptor.TYPE_UINT32: _INTEGER,
    FieldDescriptor.TYPE_SINT32: _INTEGER,
    FieldDescriptor.TYPE_INT64: _TEXT_INTEGER,
    FieldDescriptor.TYPE_UINT64: _TEXT_INTEGER,
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
}


def schemas(base: str) -> dict[str, dict[str, Any]]:
    """Return the schema of each message by its full name; references begin with `base`."""
    return {name: _schema(descriptor_of(message), base) for name, message in MESSAGES.items()}


def bundle() -> dict[str, Any]:
    """Return one document with the schemas of all messages as its definitions."""
    return {"$schema": DIALECT, "$id": "urn:coplace:v1", "$defs": schemas("#/$defs/")}


def _schema(message: Descriptor, base: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "object",
        "properties": {field.json_name: field_schema(field, base) for field in message.fields},
    }
    required = [field.json_name for field in message.fields if _is_required(field)]
    return found | ({"required": required} if required else {})


def _is_required(field: FieldDescriptor) -> bool:
    """Return whether the value that is left out, empty or 0, is refused."""
    check = check_of(field)
    if field.is_repeated:
        return check.not_empty
    if field.message_type is not None:
        return check.present
    if field.has_presence:
        return False
    is_text = bool(check.text) and check.text not in OR_EMPTY
    is_named = check.value == ENUM_CHECK_REQUIRED or check.time == TIME_CHECK_REQUIRED
    return is_text or is_named or _excludes_zero(check)


def _excludes_zero(check: FieldCheck) -> bool:
    return bool(check.quantity) and not check.or_zero and not QUANTITIES[check.quantity].has(0)


def field_schema(field: FieldDescriptor, base: str) -> dict[str, Any]:
    """Return the schema of a field; references begin with `base`."""
    check = check_of(field)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        value = field.message_type.fields_by_name["value"]
        names = {"propertyNames": dict(_text(check))} if check.text else {}
        values = _single(value, base) | dict(_number(check, value))
        return {
            "type": "object",
            "additionalProperties": values,
            **names,
            **_size(check, "Properties"),
        }
    single = _single(field, base) | dict(_text(check)) | dict(_number(check, field))
    if field.is_repeated:
        return {"type": "array", "items": single, **_size(check, "Items")}
    return single


def _size(check: FieldCheck, of: str) -> dict[str, int]:
    most = {f"max{of}": LENGTHS[check.length].most} if check.length else {}
    return most | ({f"min{of}": 1} if check.not_empty else {})


def _text(check: FieldCheck) -> Iterator[tuple[str, int]]:
    if check.text:
        yield "maxLength", LONGEST[check.text]
        if check.text not in OR_EMPTY:
            yield "minLength", 1


def _number(check: FieldCheck, field: FieldDescriptor) -> Iterator[tuple[str, Any]]:
    """Bounds of a number; those of 64 bits are texts."""
    if not check.quantity:
        if _SCALARS.get(field.type, {}).get("type") == "number" and not check.finite:
            yield "type", ["number", "string"]
            yield "pattern", _NOT_FINITE
        return
    if _SCALARS.get(field.type) is _TEXT_INTEGER:
        return
    bound = QUANTITIES[check.quantity]
    within = {"minimum": bound.least, "maximum": bound.most}
    if check.or_zero and not bound.has(0):
        yield "anyOf", [{"const": 0}, within]
    else:
        yield from within.items()


def _single(field: FieldDescriptor, base: str) -> dict[str, Any]:
    if field.message_type is not None:
        return {"$ref": f"{base}{field.message_type.full_name}"}
    if field.enum_type is not None:
        value = check_of(field).value
        names = [one.name for one in field.enum_type.values]
        if not value:  # values of a later release are numbers
            return {"anyOf": [{"enum": names}, _INTEGER]}
        return {"enum": names[1:] if value == ENUM_CHECK_REQUIRED else names}
    return dict(_SCALARS[field.type])

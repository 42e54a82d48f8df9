"""Requests to messages: JSON as protobuf maps it, read strictly, with all that is wrong in it.

Names are those of JSON (lowerCamelCase), whole numbers of 64 bits are texts, as in answers
(https://protobuf.dev/programming-guides/json/). What answers never hold is refused: other names,
unknown fields, null, and a field twice.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from services.rest.problems import WrongField
from shared.catalogue.schemas import descriptor_of

_INT32: Final = (-(2**31), 2**31 - 1)
_UINT32: Final = (0, 2**32 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)
_UINT64: Final = (0, 2**64 - 1)
_SHORT: Final = {
    FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_SINT32: _INT32,
    FieldDescriptor.TYPE_SFIXED32: _INT32,
    FieldDescriptor.TYPE_UINT32: _UINT32,
    FieldDescriptor.TYPE_FIXED32: _UINT32,
}
_LONG: Final = {
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_SINT64: _INT64,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    FieldDescriptor.TYPE_UINT64: _UINT64,
    FieldDescriptor.TYPE_FIXED64: _UINT64,
}
_DIGITS: Final = re.compile(r"-?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?")
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_FLOAT_MOST: Final = 3.4028234663852886e38
_SHOWN: Final = 40
# An integer of more digits than are shown: Python refuses to write those of thousands.
_LONG_BITS: Final = 132
# What is wrong is listed so far: a body can be wrong in as many places as it has bytes.
_MOST_LISTED: Final = 100


class WrongValueError(ValueError):
    """A value is not what its field must be; the message says what it must be."""


class NoJsonError(ValueError):
    """A body is no JSON; the message says where."""


class Wrongs:
    """The fields that are wrong, as many as an answer lists."""

    def __init__(self) -> None:
        self.found: list[WrongField] = []

    def add(self, field: str, detail: str) -> None:
        """Note one."""
        if len(self.found) < _MOST_LISTED:
            self.found.append(WrongField(field, detail))


def parse_json(body: bytes) -> object:
    """Parse a body. Raises NoJsonError for what RFC 8259 does not have, and a name twice."""
    try:
        return json.loads(body.decode(), object_pairs_hook=_once_each, parse_constant=_no_constant)
    except RecursionError:
        raise NoJsonError("is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise NoJsonError(f"must be UTF-8: byte {error.start} is not") from None
    except ValueError as error:
        raise NoJsonError(f"must be JSON: {str(error)[:200]}") from None


def _once_each(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a name twice")
    return found


def _no_constant(text: str) -> object:
    raise ValueError(f"{text} is not a number: write it as a text")


def read_body(data: object, message: Message, wrongs: Wrongs) -> None:
    """Fill a message from a body, and note all that is wrong."""
    if not isinstance(data, dict):
        wrongs.add("", f"must be an object, got {_shown(data)}")
        return
    _read_object(data, message, "", wrongs)


def _read_object(data: Mapping[str, Any], message: Message, path: str, wrongs: Wrongs) -> None:
    fields: dict[str, FieldDescriptor] = {
        one.json_name: one for one in descriptor_of(message).fields
    }
    chosen: dict[str, str] = {}
    for name, value in data.items():
        where = f"{path}{_printable(name)}"
        field = fields.get(name)
        if field is None:
            wrongs.add(where, f"is unknown: {_advice(name, fields)}")
            continue
        oneof = field.containing_oneof
        if oneof is not None and chosen.setdefault(oneof.name, name) != name:
            wrongs.add(where, f"goes without {chosen[oneof.name]}")
            continue
        _read_field(field, value, message, where, wrongs)


def _advice(name: str, fields: Mapping[str, FieldDescriptor]) -> str:
    """Which name was meant, such as that of a field in the spelling of gRPC; else all that there
    are."""
    meant = next((there for there, one in fields.items() if one.name == name), "")
    close = [meant] if meant else get_close_matches(name, fields, 1)
    if close:
        return f"is {close[0]} meant?"
    return f"there are {', '.join(sorted(fields)) or 'none'}"


def _read_field(
    field: FieldDescriptor, value: object, message: Message, where: str, wrongs: Wrongs
) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _read_map(field, value, message, where, wrongs)
    elif field.is_repeated:
        _read_list(field, value, message, where, wrongs)
    elif field.message_type is not None:
        inner = getattr(message, field.name)
        inner.SetInParent()
        _read_inner(value, inner, where, wrongs)
    else:
        for found in _values(field, [(where, value)], wrongs):
            setattr(message, field.name, found)


def _read_inner(value: object, inner: Message, where: str, wrongs: Wrongs) -> None:
    if isinstance(value, dict):
        _read_object(value, inner, f"{where}.", wrongs)
    else:
        wrongs.add(where, f"must be an object, got {_shown(value)}")


def _read_list(
    field: FieldDescriptor, value: object, message: Message, where: str, wrongs: Wrongs
) -> None:
    if not isinstance(value, list):
        wrongs.add(where, f"must be an array, got {_shown(value)}")
        return
    of_message = getattr(message, field.name)
    each = [(f"{where}[{number}]", one) for number, one in enumerate(value)]
    if field.message_type is None:
        of_message.extend(_values(field, each, wrongs))
        return
    for at, one in each:
        _read_inner(one, of_message.add(), at, wrongs)


def _read_map(
    field: FieldDescriptor, value: object, message: Message, where: str, wrongs: Wrongs
) -> None:
    """Read a map, whose keys are texts and whose values are no messages in what is asked."""
    if not isinstance(value, dict):
        wrongs.add(where, f"must be an object, got {_shown(value)}")
        return
    assert field.message_type is not None
    of_value = field.message_type.fields_by_name["value"]
    for key, one in value.items():
        at = f"{where}.{_printable(key)}"
        if _text(key) is not None:
            for found in _values(of_value, [(at, one)], wrongs):
                getattr(message, field.name)[key] = found
        else:
            wrongs.add(at, "must be Unicode")


def read_texts(
    field: FieldDescriptor, name: str, texts: Sequence[str], message: Message, wrongs: Wrongs
) -> None:
    """Fill a field from its texts in the path or the query, where it has this name."""
    if not field.is_repeated and len(texts) > 1:
        wrongs.add(name, f"must be given once, got {len(texts)}")
        return
    values = _values(field, [(name, _from_text(field, text)) for text in texts], wrongs)
    if field.is_repeated:
        getattr(message, field.name).extend(values)
    else:
        for value in values:
            setattr(message, field.name, value)


def _from_text(field: FieldDescriptor, text: str) -> object:
    """Return what JSON would have for a text of a query, which has texts alone; the text itself
    where it is none of these."""
    if field.type == FieldDescriptor.TYPE_BOOL:
        return {"true": True, "false": False}.get(text, text)
    is_short = field.type in _SHORT and _DIGITS.fullmatch(text)
    if is_short:
        return int(text)
    if field.type in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
        return float(text) if _NUMBER.fullmatch(text) else text
    return text


def _values(
    field: FieldDescriptor, each: Iterable[tuple[str, object]], wrongs: Wrongs
) -> list[Any]:
    """Return the values that are right, and note where the others are wrong."""
    parse, found = _PARSERS[field.type], []
    for where, value in each:
        try:
            found.append(parse(field, value))
        except WrongValueError as error:
            wrongs.add(where, f"must be {error}, got {_shown(value)}")
    return found


def _parse_bool(_field: FieldDescriptor, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise WrongValueError("true or false")


def _parse_text(_field: FieldDescriptor, value: object) -> str:
    text = _text(value)
    if text is None:
        raise WrongValueError("a text")
    return text


def _text(value: object) -> str | None:
    """Return a text that UTF-8 has: JSON can write halves of surrogate pairs."""
    if not isinstance(value, str):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value


def _parse_bytes(_field: FieldDescriptor, value: object) -> bytes:
    try:
        if isinstance(value, str):
            return base64.b64decode(value.encode("ascii"), validate=True)
    except (ValueError, binascii.Error):
        pass
    raise WrongValueError("a text in base64")


def _parse_enum(field: FieldDescriptor, value: object) -> int:
    assert field.enum_type is not None
    names = field.enum_type.values_by_name
    if isinstance(value, str) and value in names:
        return int(names[value].number)
    raise WrongValueError(f"one of {', '.join(names)}")


def _parse_short(field: FieldDescriptor, value: Any) -> int:
    least, most = _SHORT[field.type]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # In this order: neither infinity nor NaN has a whole number.
    if is_number and least <= value <= most and value == int(value):
        return int(value)
    raise WrongValueError(f"a whole number from {least} to {most}")


def _parse_long(field: FieldDescriptor, value: object) -> int:
    least, most = _LONG[field.type]
    if isinstance(value, str) and _DIGITS.fullmatch(value) and least <= int(value) <= most:
        return int(value)
    raise WrongValueError(f"a text of a whole number from {least} to {most}")


def _parse_float(field: FieldDescriptor, value: object) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        most = _FLOAT_MOST if field.type == FieldDescriptor.TYPE_FLOAT else None
        return _finite(value, most)
    raise WrongValueError("a number")


def _finite(value: float, most: float | None) -> float:
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found) or (most is not None and abs(found) > most):
        raise WrongValueError("a number that its type holds")
    return found


_PARSERS: Final[Mapping[int, Callable[[FieldDescriptor, Any], Any]]] = {
    FieldDescriptor.TYPE_BOOL: _parse_bool,
    FieldDescriptor.TYPE_STRING: _parse_text,
    FieldDescriptor.TYPE_BYTES: _parse_bytes,
    FieldDescriptor.TYPE_ENUM: _parse_enum,
    FieldDescriptor.TYPE_DOUBLE: _parse_float,
    FieldDescriptor.TYPE_FLOAT: _parse_float,
    **dict.fromkeys(_SHORT, _parse_short),
    **dict.fromkeys(_LONG, _parse_long),
}


def _shown(value: object) -> str:
    if value is None:
        return "null: leave the field out"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    is_long = isinstance(value, int) and value.bit_length() > _LONG_BITS
    text = "more" if is_long else json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _printable(name: str) -> str:
    """Return a name as an answer can repeat it."""
    return "".join(sign if sign.isprintable() else "?" for sign in name[:_SHOWN])

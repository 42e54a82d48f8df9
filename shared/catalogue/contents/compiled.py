"""Checks of a message's fields as straight code, made once of the options in its `.proto` file.

What is right runs through comparisons alone; what is wrong calls a function that says so in words.
Of the same lines a second function is made that goes on behind what is wrong: it raises one error
for all fields, so that the message can be repaired at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from math import isfinite
from typing import Any, Final

from coplace.v1.options_pb2 import (
    ENUM_CHECK_OPTIONAL,
    TEXT_CHECK_HOST_LIST,
    TEXT_CHECK_OPTIONAL,
    TEXT_CHECK_REQUIRED,
    TEXT_CHECK_RESOURCE,
    TEXT_CHECK_TASKS,
    TEXT_CHECK_VERSION,
    TIME_CHECK_OR_NEVER,
    FieldCheck,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from coplace_client.bounds import LENGTHS, QUANTITIES
from coplace_client.checks import require_finite, require_text
from coplace_client.errors import RejectedError, Violations
from shared.catalogue.contents.whole import WHOLE, require_ascending
from shared.catalogue.options import check_of, rule_of
from shared.catalogue.payloads.domain_types import MOST_VERSION
from shared.catalogue.texts import MOST_LIST_BYTES
from shared.domain.array_tasks import MOST_TEXT as MOST_TASKS_TEXT
from shared.domain.resources import MOST_NAME as MOST_RESOURCE_NAME

Check = Callable[[Any], None]

YEAR_2000_US: Final = 946_684_800_000_000
_YEAR_10000_US: Final = 253_402_300_800_000_000
LONGEST: Final = {
    TEXT_CHECK_REQUIRED: 256,
    TEXT_CHECK_OPTIONAL: 256,
    TEXT_CHECK_HOST_LIST: MOST_LIST_BYTES,
    TEXT_CHECK_VERSION: MOST_VERSION,
    TEXT_CHECK_RESOURCE: MOST_RESOURCE_NAME,
    TEXT_CHECK_TASKS: MOST_TASKS_TEXT,
}
# Texts that may be left out.
OR_EMPTY: Final = frozenset({TEXT_CHECK_OPTIONAL, TEXT_CHECK_TASKS})


@cache
def compiled(message: Descriptor, *, names_all: bool = False) -> Check:
    """Return the check of a message: it raises RejectedError, which names the first field that is
    wrong, or all of them."""
    source = _Source(names_all)
    for field in message.fields:
        source.field(field)
    source.ascending(tuple(rule_of(message).ascending))
    for whole in WHOLE.get(message.full_name, ()):
        source.whole(whole)
    return source.function(message.full_name)


@cache
def _is_checked(message: Descriptor) -> bool:
    """Return whether something about a message can be wrong. No message of an event holds
    itself."""
    return message.full_name in WHOLE or any(
        field.GetOptions().ByteSize() or (_holds_message(field) and _is_checked(field.message_type))
        for field in message.fields
    )


class _Source:
    """The lines of a function of `m`, and the values that they name."""

    def __init__(self, names_all: bool) -> None:
        self._names_all = names_all
        self._lines: list[str] = []
        self._names: dict[str, object] = {
            "RejectedError": RejectedError,
            "Violations": Violations,
            "isfinite": isfinite,
            "require_finite": require_finite,
            "require_known": _require_known,
            "require_text": require_text,
            "require_time": _require_time,
        }

    def add(self, *lines: str) -> None:
        """Put lines at the end."""
        self._lines += lines

    def holding(self, value: object) -> str:
        """Return a name by which the code finds a value."""
        name = f"x{len(self._names)}"
        self._names[name] = value
        return name

    def function(self, name: str) -> Check:
        """Return what the lines do."""
        lines = self._lines or ["pass"]
        if self._names_all:
            lines = ["wrong = Violations()", *lines, "wrong.require_none()"]
        body = "".join(f"    {line}\n" for line in lines)
        code = compile(f"def check(m):\n{body}", f"<check of {name}>", "exec")
        exec(code, self._names)
        check: Check = self._names["check"]  # type: ignore[assignment]
        return check

    def field(self, field: FieldDescriptor) -> None:
        """Check one field."""
        check = check_of(field)
        if field.is_repeated:
            self._many(field, check)
        elif _holds_message(field):
            self._message(field, check)
        elif lines := list(self._value(field, check, repr(field.name))):
            has = f"if m.HasField({field.name!r}):" if field.has_presence else ""
            self.add(*_under(has, [f"v = m.{field.name}", *self._noted(lines)]))

    def whole(self, whole: Callable[[Any], object]) -> None:
        """Check the message beyond its fields one by one, where each of them is right."""
        if self._names_all:
            self.add("wrong.require_none()")
        self.add(*self._noted([f"{self.holding(whole)}(m)"]))

    def _noted(self, lines: Sequence[str]) -> Sequence[str]:
        """Return lines that check one thing so that what follows is checked, too, where all is to
        be named."""
        if not self._names_all or not lines:
            return lines
        return [*_under("try:", lines), "except RejectedError as error:", "    wrong.add(error)"]

    def ascending(self, names: Sequence[str]) -> None:
        """Check that times follow one another."""
        require = self.holding(require_ascending)
        for number, name in enumerate(names):
            if not number:
                self.add(f"last = m.{name}")
                continue
            ordered = ["if v < last:", f"    {require}(m, {names!r})"]
            self.add(f"v = m.{name}", *_under("if v:", [*self._noted(ordered), "last = v"]))

    def _message(self, field: FieldDescriptor, check: FieldCheck) -> None:
        if check.present:
            missing = f"raise RejectedError({field.name!r}, 'is missing')"
            self.add(*self._noted(list(_under(f"if not m.HasField({field.name!r}):", [missing]))))
        if _is_checked(field.message_type):
            nested = self._noted(list(self._nested(field, repr(field.name))))
            lines = [f"v = m.{field.name}", *nested]
            self.add(*_under(f"if m.HasField({field.name!r}):", lines))

    def _nested(self, field: FieldDescriptor, path: str) -> Iterator[str]:
        check = compiled(field.message_type, names_all=self._names_all)
        yield "try:"
        yield f"    {self.holding(check)}(v)"
        yield "except RejectedError as error:"
        yield f"    raise error.inside({path}) from None"

    def _many(self, field: FieldDescriptor, check: FieldCheck) -> None:
        """A list or a map, of which the length is looked at first."""
        name, lines = field.name, list[str]()
        if check.length:
            length = LENGTHS[check.length]
            too_long = f"{self.holding(length)}.require({name!r}, len(all))"
            lines += self._noted(list(_under(f"if len(all) > {length.most}:", [too_long])))
        lines += self._map(field, check) if _is_map(field) else self._list(field, check)
        if lines or check.not_empty:
            self.add(f"all = m.{name}", *_under("if all:", lines or ["pass"]))
        if check.not_empty:
            empty = f"raise RejectedError({name!r}, 'must hold at least one value')"
            self.add(*_under("else:", self._noted([empty])))

    def _list(self, field: FieldDescriptor, check: FieldCheck) -> Iterator[str]:
        path = f'f"{field.name}[{{i}}]"'
        if not _holds_message(field):
            lines = list(self._value(field, check, path))
        else:
            lines = list(self._nested(field, path)) if _is_checked(field.message_type) else []
        if lines:
            yield from _under("for i, v in enumerate(all):", self._noted(lines))

    def _map(self, field: FieldDescriptor, check: FieldCheck) -> Iterator[str]:
        path = repr(field.name)
        if check.text:
            yield from _under("for v in all:", self._noted(list(_text(check, path))))
        if check.quantity:
            quantity = self._noted(list(self._quantity(check, path)))
            yield from _under("for v in all.values():", quantity)

    def _value(self, field: FieldDescriptor, check: FieldCheck, path: str) -> Iterator[str]:
        """One value, `v`."""
        if check.text:
            yield from _text(check, path)
        if check.quantity:
            yield from self._quantity(check, path)
        if check.finite:
            yield from ("if not isfinite(v):", f"    require_finite({path}, v)")
        if check.time:
            or_never = "v and " if check.time == TIME_CHECK_OR_NEVER else ""
            yield f"if {or_never}not {YEAR_2000_US} <= v < {_YEAR_10000_US}:"
            yield f"    require_time({path}, v)"
        if check.value and field.enum_type is not None:
            known = {one.number: one.name for one in field.enum_type.values if one.number}
            or_none = "v and " if check.value == ENUM_CHECK_OPTIONAL else ""
            names = self.holding(known)
            yield from (f"if {or_none}v not in {names}:", f"    require_known({path}, v, {names})")

    def _quantity(self, check: FieldCheck, path: str) -> Iterator[str]:
        bound = QUANTITIES[check.quantity]
        or_zero = "v and " if check.or_zero else ""
        yield f"if {or_zero}not {bound.least!r} <= v <= {bound.most!r}:"
        yield f"    {self.holding(bound)}.require({path}, v)"


def _text(check: FieldCheck, path: str) -> Iterator[str]:
    longest = LONGEST[check.text]
    if check.text in OR_EMPTY:
        yield f"if v and (len(v) > {longest} or not v.isprintable()):"
    else:
        yield f"if not v or len(v) > {longest} or not v.isprintable():"
    yield f"    require_text({path}, v, limit={longest})"


def _under(head: str, lines: Iterable[str]) -> Iterator[str]:
    """Lines in a block; as they are where it has no head."""
    if head:
        yield head
    yield from (f"    {line}" if head else line for line in lines)


def _holds_message(field: FieldDescriptor) -> bool:
    return field.message_type is not None and not _is_map(field)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _require_time(name: str, time_us: int) -> None:
    if time_us < YEAR_2000_US:
        raise RejectedError(name, f"must not lie before the year 2000, got {time_us} us")
    raise RejectedError(name, f"must lie before the year 10000, got {time_us} us")


def _require_known(name: str, value: int, known: dict[int, str]) -> None:
    raise RejectedError(name, f"must be one of {', '.join(known.values())}, got {value}")

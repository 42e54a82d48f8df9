"""Which fields of the messages that come in name jobs, places and people, and who may name these.

A field that by its name does so and has no guard fails the build: the import of this module.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.options_pb2 import GUARD_NONE, Guard, SubjectKind
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from shared.catalogue.options import kinds_by_value, rule_of, subject_of

# How fields that name somebody or something are called.
_SUBJECTS: Final = re.compile(r"(.*_)?(job_id|cluster|site|user|account|node_model)")

# The messages of an envelope by their names there.
PAYLOADS: Final[Mapping[str, Descriptor]] = {
    field.name: message
    for field in Envelope.DESCRIPTOR.oneofs_by_name["payload"].fields
    if (message := field.message_type) is not None
}


@dataclass(frozen=True, slots=True)
class GuardedField:
    """A field that names something of a kind, or of the kind that the enum field `by` says; nobody
    is asked about it where the field `unless` says something."""

    name: str
    kind: SubjectKind.ValueType
    by: str
    guard: Guard.ValueType
    unless: str = ""


class UnguardedFieldError(Exception):
    """A message that comes in has a field that nobody guards, or nobody who may send it."""


@cache
def guarded_fields(message: Descriptor) -> tuple[GuardedField, ...]:
    """Return the fields of a message that name what somebody has to be asked about."""
    return tuple(
        GuardedField(field.name, named.kind, named.by, named.guard, named.unless)
        for field in message.fields
        if (named := subject_of(field)) is not None and named.guard != GUARD_NONE
    )


def kinds_of(message: Descriptor, field: GuardedField) -> set[SubjectKind.ValueType]:
    """Return what a field can name."""
    if not field.by:
        return {field.kind}
    return set(kinds_by_value(message, field.by).values())


def unguarded(payloads: Mapping[str, Descriptor]) -> Iterator[str]:
    """Yield what is missing in the schemas of messages that come in."""
    for message in payloads.values():
        rule = rule_of(message)
        if not rule.roles:
            yield f"{message.full_name} has no role that may send it: option (event).roles"
        if not rule.of_region:
            yield from _unguarded_fields(message, is_nested=False)


def _unguarded_fields(message: Descriptor, *, is_nested: bool) -> Iterator[str]:
    for field in message.fields:
        guard = _guard_of(field)
        if guard is None:
            yield f"{message.full_name}.{field.name} needs a guard: option (names).guard"
        elif is_nested and guard not in {Guard.GUARD_UNSPECIFIED, GUARD_NONE}:
            yield f"{message.full_name}.{field.name}: fields within fields are not guarded"
        if field.message_type is not None:
            yield from _unguarded_fields(field.message_type, is_nested=True)


def _guard_of(field: FieldDescriptor) -> Guard.ValueType | None:
    """Return the guard of a field, UNSPECIFIED of one that names nothing, None where it is
    missing."""
    named = subject_of(field)
    if named is not None:
        return named.guard or None
    is_text = field.type == FieldDescriptor.TYPE_STRING
    return None if is_text and _SUBJECTS.fullmatch(field.name) else Guard.GUARD_UNSPECIFIED


if _missing := list(unguarded(PAYLOADS)):
    raise UnguardedFieldError("; ".join(_missing))

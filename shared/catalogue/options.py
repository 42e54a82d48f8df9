"""What the `.proto` files say of messages and fields beside their types."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from coplace.v1.options_pb2 import (
    EventRule,
    FieldCheck,
    NamedSubject,
    SubjectKind,
    check,
    event,
    names,
    subject_kind,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from shared.catalogue.schemas import MESSAGES


def rule_of(message: Descriptor) -> EventRule:
    """Return what concerns a message as a whole."""
    return message.GetOptions().Extensions[event]


def check_of(field: FieldDescriptor) -> FieldCheck:
    """Return what a field must be; one that says nothing takes what its type takes."""
    return field.GetOptions().Extensions[check]


def subject_of(field: FieldDescriptor) -> NamedSubject | None:
    """Return what a field names, None where it names nothing."""
    options = field.GetOptions()
    return options.Extensions[names] if options.HasExtension(names) else None


def kind_named(message: Message, named: NamedSubject) -> SubjectKind.ValueType:
    """Return what a field of a message names: where another field says so, by the value there."""
    if not named.by:
        return named.kind
    by = message.DESCRIPTOR.fields_by_name[named.by].enum_type
    value = by.values_by_number.get(getattr(message, named.by))
    if value is None:
        return SubjectKind.SUBJECT_KIND_UNSPECIFIED
    return value.GetOptions().Extensions[subject_kind]


@cache
def ranks() -> Mapping[str, int]:
    """Return the place of each message that placement is informed of among the events of one
    microsecond, lowest first, by the message's full name."""
    return dict(sorted(_ranked(), key=lambda one: one[1]))


def _ranked() -> Iterator[tuple[str, int]]:
    for name, message in MESSAGES.items():
        rank = rule_of(message.DESCRIPTOR).rank
        if rank:
            yield name, rank


def follows_decisions(message: Message) -> bool:
    """Return whether a message comes of decisions: under other ones it would be another."""
    return rule_of(message.DESCRIPTOR).follows_decisions

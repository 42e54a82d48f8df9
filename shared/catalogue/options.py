"""What the `.proto` files say of messages and fields beside their types."""

from collections.abc import Iterator, Mapping
from functools import cache

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

from shared.catalogue.schemas import MESSAGES, descriptor_of


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


@cache
def kinds_by_value(message: Descriptor, by: str) -> Mapping[int, SubjectKind.ValueType]:
    """Return what a message names for each value of its enum field `by`."""
    enum = message.fields_by_name[by].enum_type
    assert enum is not None, f"{message.full_name}.{by} is no enum: it cannot say what is named"
    kinds = {one.number: one.GetOptions().Extensions[subject_kind] for one in enum.values}
    return {number: kind for number, kind in kinds.items() if kind}


@cache
def ranks() -> Mapping[str, int]:
    """Return the place of each message that placement is informed of among the events of one
    microsecond, lowest first, by the message's full name."""
    return dict(sorted(_ranked(), key=lambda one: one[1]))


def _ranked() -> Iterator[tuple[str, int]]:
    for name, message in MESSAGES.items():
        rank = rule_of(descriptor_of(message)).rank
        if rank:
            yield name, rank


def follows_decisions(message: Message) -> bool:
    """Return whether a message comes of decisions: under other ones it would be another."""
    return rule_of(descriptor_of(message)).follows_decisions

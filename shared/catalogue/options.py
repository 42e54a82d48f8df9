"""What the `.proto` files say of messages and fields beside their types."""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product

from coplace.v1.options_pb2 import (
    EventRule,
    FieldCheck,
    HttpRule,
    NamedSubject,
    RolesAbove,
    RolesWithout,
    SubjectKind,
    above,
    check,
    event,
    http,
    http_path,
    left_out,
    names,
    subject_kind,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
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


def http_rule_of(method: MethodDescriptor) -> HttpRule | None:
    """Return how a method is called over HTTP, None where it is not."""
    options = method.GetOptions()
    return options.Extensions[http] if options.HasExtension(http) else None


def http_path_of(payload: FieldDescriptor) -> str:
    """Return where a payload is published over HTTP; empty where its name says it."""
    path: str = payload.GetOptions().Extensions[http_path]
    return path


@cache
def roles_above(message: Descriptor) -> Mapping[str, RolesAbove]:
    """Return the numbers of a message of which only some roles may say all, and above what."""
    options = {field.name: field.GetOptions() for field in message.fields}
    return {name: one.Extensions[above] for name, one in options.items() if one.HasExtension(above)}


@cache
def roles_without(message: Descriptor) -> Mapping[str, RolesWithout]:
    """Return the fields of a message that only some roles may leave out, and what others say."""
    options = {field.name: field.GetOptions() for field in message.fields}
    found = {name: one.Extensions[left_out] for name, one in options.items()}
    return {name: one for name, one in found.items() if one.roles}


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


@cache
def owners() -> Mapping[str, str]:
    """Return the stage that carries out each command, by the message's full name."""
    rules = {name: rule_of(descriptor_of(message)) for name, message in MESSAGES.items()}
    return {name: rule.owner for name, rule in rules.items() if rule.owner}


def set_by(message: Message) -> list[str]:
    """Return what a command sets as a whole, each with what it is of; of others nothing."""
    rule = rule_of(descriptor_of(message))
    choices = [_values_of(message, each) for each in rule.of]
    return ["\n".join((rule.sets, *of)) for of in product(*choices)] if rule.sets else []


def _values_of(message: Message, fields: str) -> list[str]:
    """The values of fields with commas between, which may be of a message's parts."""
    found: list[str] = []
    for field in fields.split(","):
        name, _, inner = field.partition(".")
        value = getattr(message, name)
        is_one = isinstance(value, str | int)
        if not is_one and not value:
            enum = message.DESCRIPTOR.fields_by_name[name].enum_type
            value = [one.number for one in enum.values] if enum is not None else value
        found += [
            str(getattr(one, inner) if inner else one) for one in ([value] if is_one else value)
        ]
    return found


def follows_decisions(message: Message) -> bool:
    """Return whether a message comes of decisions: under other ones it would be another."""
    return rule_of(descriptor_of(message)).follows_decisions

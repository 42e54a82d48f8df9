"""Fields that name somebody or something, and who guards them."""

from itertools import count

import pytest
from coplace.v1.options_pb2 import (
    GUARD_COVERED,
    GUARD_NONE,
    SUBJECT_KIND_CLUSTER,
    EventRule,
    NamedSubject,
    event,
    names,
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import Default

from shared.catalogue.guards import unguarded

SENT = EventRule(roles=["operator"])
GUARDED = NamedSubject(kind=SUBJECT_KIND_CLUSTER, guard=GUARD_COVERED)
UNHEEDED = NamedSubject(kind=SUBJECT_KIND_CLUSTER, guard=GUARD_NONE)
_NUMBERS = count()


def made_up(
    rule: EventRule, field: str, named: NamedSubject | None, nested: str = ""
) -> Descriptor:
    """A message with one text, or with one that holds such a message."""
    number = next(_NUMBERS)
    file = FileDescriptorProto(name=f"m{number}.proto", package=f"m{number}", syntax="proto3")
    message = file.message_type.add(name="M")
    message.options.Extensions[event].CopyFrom(rule)
    if nested:
        message.field.add(
            name=nested,
            number=1,
            type=FieldDescriptorProto.TYPE_MESSAGE,
            label=FieldDescriptorProto.LABEL_REPEATED,
            type_name=f".m{number}.N",
        )
        message = file.message_type.add(name="N")
    text = message.field.add(name=field, number=1, type=FieldDescriptorProto.TYPE_STRING)
    text.label = FieldDescriptorProto.LABEL_OPTIONAL
    if named is not None:
        text.options.Extensions[names].CopyFrom(named)
    pool = Default()
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName(f"m{number}.M")


@pytest.mark.parametrize(
    ("message", "missing"),
    [
        (made_up(SENT, "reason", None), ""),
        (made_up(SENT, "cluster", GUARDED), ""),
        (made_up(SENT, "cluster", UNHEEDED), ""),
        (made_up(SENT, "cluster", None), "M.cluster needs a guard"),
        (made_up(SENT, "to_account", None), "M.to_account needs a guard"),
        (made_up(SENT, "cluster", NamedSubject(kind=SUBJECT_KIND_CLUSTER)), "needs a guard"),
        (made_up(EventRule(roles=["operator"], of_region=True), "cluster", None), ""),
        (made_up(EventRule(), "reason", None), "M has no role that may send it"),
        (made_up(SENT, "cluster", None, nested="jobs"), "N.cluster needs a guard"),
        (made_up(SENT, "cluster", UNHEEDED, nested="jobs"), ""),
        (made_up(SENT, "cluster", GUARDED, nested="jobs"), "fields within fields"),
    ],
)
def test_a_field_that_names_something_and_has_no_guard_is_missing(
    message: Descriptor, missing: str
) -> None:
    found = list(unguarded({"m": message}))
    assert bool(found) == bool(missing)
    assert missing in "; ".join(found)

"""The protobuf messages of the project by their full name, which is their CloudEvents type."""

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import cast

import coplace.v1
from google.protobuf.descriptor import Descriptor, FileDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass


def _files() -> Iterator[FileDescriptor]:
    for module in pkgutil.iter_modules(coplace.v1.__path__, "coplace.v1."):
        if module.name.endswith("_pb2"):
            yield import_module(module.name).DESCRIPTOR


def _message_classes() -> Iterator[tuple[str, type[Message]]]:
    for file in _files():
        for descriptor in file.message_types_by_name.values():
            yield descriptor.full_name, GetMessageClass(descriptor)


def service_descriptors() -> Iterator[ServiceDescriptor]:
    """Yield what answers over gRPC."""
    for file in _files():
        yield from file.services_by_name.values()


def descriptor_of(message: Message | type[Message]) -> Descriptor:
    """Return the descriptor of a message, whichever implementation of protobuf it is of."""
    return cast(Descriptor, message.DESCRIPTOR)


def names_of(*messages: type[Message]) -> frozenset[str]:
    """Return the full names of messages, which are their CloudEvents types."""
    return frozenset(message.DESCRIPTOR.full_name for message in messages)


MESSAGES: Mapping[str, type[Message]] = dict(_message_classes())

"""What is asked by which verb and path: read from the options of the services' methods."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from coplace.v1.options_pb2 import HttpRule
from google.protobuf.descriptor import (
    Descriptor,
    FieldDescriptor,
    MethodDescriptor,
    ServiceDescriptor,
)

from shared.catalogue.guards import PAYLOADS
from shared.catalogue.options import http_path_of, http_rule_of
from shared.catalogue.schemas import service_descriptors

GET: Final = "GET"
POST: Final = "POST"
# Fields by which a stream says where it is, and goes on.
CURSOR: Final = "cursor"
_EXPLAIN: Final = "coplace.v1.PlacementService.Explain"
_SHOW_OUTCOME: Final = "coplace.v1.IngestService.ShowOutcome"
_PAYLOAD: Final = "{payload}"
_NAMED: Final = re.compile(r"\{(\w+)\}")


class RouteError(Exception):
    """An option of a method says what cannot be; the message names the method."""


@dataclass(frozen=True)
class QueryField:
    """A field of a question, or of the message `of` in it."""

    field: FieldDescriptor
    of: str = ""


@dataclass(frozen=True)
class Route:
    """A method by its verb and path. `payload` is the field of the envelope that a route of
    publishing is about; empty of questions."""

    verb: str
    path: str
    method: MethodDescriptor
    payload: str = ""
    path_fields: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "path_fields", tuple(_NAMED.findall(self.path)))
        unknown = set(self.path_fields) - set(self.request.fields_by_name)
        if self.verb not in (GET, POST) or not self.path.startswith("/v1/") or unknown:
            raise RouteError(
                f"{self.method.full_name}: {self.verb} {self.path} is not a route of it"
            )
        both = self.request, self.method.output_type
        if self.streams and not all(CURSOR in each.fields_by_name for each in both):
            raise RouteError(f"{self.method.full_name}: what streams is resumed by a {CURSOR}")

    @property
    def request(self) -> Descriptor:
        """Return what the service is asked by."""
        return self.method.input_type

    @property
    def streams(self) -> bool:
        """Return whether answers come one after another, as server-sent events."""
        return self.method.server_streaming

    @property
    def changes(self) -> bool:
        """Return whether the call changes something."""
        rule = http_rule_of(self.method)
        return rule is not None and rule.changes

    @property
    def body(self) -> Descriptor | None:
        """Return what the body is, None of a question that has none."""
        if self.payload:
            return PAYLOADS[self.payload]
        return self.request if self.verb == POST else None

    @property
    def operation(self) -> str:
        """Return the name of the route, of which there is no other."""
        return PAYLOADS[self.payload].name if self.payload else self.method.name

    @property
    def template(self) -> str:
        """Return the path with its fields named as in JSON."""
        return _NAMED.sub(lambda found: f"{{{self._json_name(found[1])}}}", self.path)

    def query_fields(self) -> Mapping[str, "QueryField"]:
        """Return the fields that a question has in its query, by their names there: those of a
        message in it follow its name and a dot."""
        if self.body is not None:
            return {}
        fields = [one for one in self.request.fields if one.name not in self.path_fields]
        found = {one.json_name: QueryField(one) for one in fields if one.message_type is None}
        for of in fields:
            inner = of.message_type.fields if of.message_type and not of.is_repeated else ()
            found |= {
                f"{of.json_name}.{one.json_name}": QueryField(one, of.name)
                for one in inner
                if one.message_type is None
            }
        return found

    def path_values(self, raw_path: bytes) -> Mapping[str, str] | None:
        """Return the texts of the path's fields by their names, None where it is another path.
        Raises UnicodeDecodeError."""
        found = self._pattern.fullmatch(raw_path)
        if found is None:
            return None
        return {name: unquote_to_bytes(text).decode() for name, text in found.groupdict().items()}

    def path_of(self, **values: str) -> str:
        """Return the path with these values, of which nothing but letters, digits and a few signs
        is left as it is."""
        return self.path.format(**{name: quote(value, safe="") for name, value in values.items()})

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        parts = _NAMED.split(self.path)
        pattern = "".join(
            f"(?P<{part}>{'.+' if number == len(parts) - 2 and not parts[-1] else '[^/]+'})"
            if number % 2
            else re.escape(part)
            for number, part in enumerate(parts)
        )
        return re.compile(pattern.encode())

    def _json_name(self, name: str) -> str:
        return self.request.fields_by_name[name].json_name


def routes(services: Iterable[ServiceDescriptor] | None = None) -> tuple[Route, ...]:
    """Return every route of the services. Raises RouteError for two of one verb and path."""
    every = tuple(_routes(service_descriptors() if services is None else services))
    names = [(route.verb, route.path) for route in every]
    if twice := {name for name in names if names.count(name) > 1}:
        raise RouteError(f"several methods have {sorted(twice)}")
    return every


def _routes(services: Iterable[ServiceDescriptor]) -> Iterator[Route]:
    for service in services:
        for method in service.methods:
            rule = http_rule_of(method)
            if rule is not None:
                yield from _of_method(method, rule)


def _of_method(method: MethodDescriptor, rule: HttpRule) -> Iterator[Route]:
    if not rule.each_payload:
        yield Route(rule.verb, rule.path, method)
        return
    envelope = method.input_type.fields_by_name["event"].message_type
    assert envelope is not None, f"{method.full_name} publishes no envelope"
    for name in PAYLOADS:
        own = http_path_of(envelope.fields_by_name[name])
        path = own or rule.path.replace(_PAYLOAD, name.replace("_", "-"))
        yield Route(rule.verb, path, method, name)


@dataclass(frozen=True)
class Locations:
    """Where it can be asked what came of what was published."""

    job: Route
    outcome: Route

    @classmethod
    def among(cls, every: Iterable[Route]) -> "Locations":
        """Find the two questions."""
        found = {route.method.full_name: route for route in every}
        return cls(found[_EXPLAIN], found[_SHOW_OUTCOME])

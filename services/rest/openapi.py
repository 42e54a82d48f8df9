"""The OpenAPI 3.1 document of the routes, made from the same descriptors as they are.

https://spec.openapis.org/oas/v3.1.1.html
"""

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from services.rest import problems, publishing
from services.rest.events import EVENTS, LAST_EVENT_ID
from services.rest.routes import Route
from shared.catalogue.comments import comments
from shared.catalogue.described_schemas import described_schemas, references
from shared.catalogue.json_schema import field_schema
from shared.catalogue.webhook_types import TYPES, webhook_schema

_BASE: Final = "#/components/schemas/"
_PROBLEM: Final = "Problem"
_JSON: Final = "application/json"
_DESCRIPTION: Final = (
    "What the services of Coplace answer over gRPC, and the events that ingest takes. Bodies are "
    "the JSON form of protobuf: names in lowerCamelCase, whole numbers of 64 bits as texts, bytes "
    "in base64, values of enums by their names. Answers have all fields, also those of 0 and empty "
    "ones; requests leave them out. Unknown fields and null are refused. Errors are "
    f"{problems.CONTENT_TYPE}."
)
_STREAM: Final = (
    "Server-sent events, without end. The data of each is one answer as JSON, and its id the "
    "cursor: a client that connects again sends it as Last-Event-ID. An event `problem` is the "
    "last one."
)
_PROBLEM_SCHEMA: Final = {
    "type": "object",
    "description": "What went wrong, as RFC 9457 has it.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "description": "Stable: what a program looks at."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "In words, for people."},
        "errors": {
            "type": "array",
            "description": "Each field of the request that is wrong.",
            "items": {
                "type": "object",
                "required": ["field", "detail"],
                "properties": {
                    "field": {
                        "type": "string",
                        "description": "As in the request; empty: the body as a whole.",
                    },
                    "detail": {"type": "string"},
                },
            },
        },
    },
}
_REFUSALS: Final = {
    HTTPStatus.BAD_REQUEST: "Something in the request is wrong.",
    HTTPStatus.UNAUTHORIZED: "There is no token, or it is not valid.",
    HTTPStatus.FORBIDDEN: "The caller may not.",
    HTTPStatus.NOT_FOUND: "There is no such thing.",
    HTTPStatus.TOO_MANY_REQUESTS: "The service has too much to do: try again.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The service does not answer now: try again.",
}
_REFUSALS_OF_BODIES: Final = {
    HTTPStatus.CONFLICT: "Something else was declared meanwhile.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not said to be JSON.",
}
_ATTRIBUTES: Final = (
    (publishing.SOURCE, True, "Who says it: the identity of the token, or a name below it."),
    (
        publishing.KEY,
        False,
        "Names the request among those of the source: one that is sent again has the same. "
        f"The event's id is made of it, so it must be there unless {publishing.ID} is.",
    ),
    (publishing.ID, False, "The event's id, where the caller makes it."),
    (publishing.TIME, False, "When it happened, RFC 3339; now where it is left out."),
    (publishing.TRACEPARENT, False, "W3C Trace Context."),
)


_SIGNED: Final = "Posted to registered URLs, signed as Standard Webhooks says."
_SIGNATURE: Final = (
    ("webhook-id", "The same whenever an event is posted again: drop repeats by it."),
    ("webhook-timestamp", "Seconds since 1970 when this attempt was made."),
    ("webhook-signature", "`v1,` and the signature; several with spaces between."),
)
_RESUMING: Final = (
    (LAST_EVENT_ID, False, "The id of the last event that came: what follows it comes."),
)


def document(routes: Iterable[Route], version: str = "0.1.0") -> dict[str, Any]:
    """Return the document as JSON-like data; `version` is that of the project."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(f"{route.template}", {})[route.verb.lower()] = _operation(route)
    webhooks = {name: {"post": _posted(name)} for name in TYPES}
    messages = set(references([paths, webhooks], _BASE)) - {_PROBLEM}
    return {
        "openapi": "3.1.1",
        "info": {"title": "Coplace", "version": version, "description": _DESCRIPTION},
        "security": [{}, {"token": []}],
        "paths": paths,
        "webhooks": webhooks,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {_PROBLEM: _PROBLEM_SCHEMA, **described_schemas(messages, _BASE)},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    payload = route.body.full_name if route.payload and route.body else ""
    summary = comments().get(payload or route.method.full_name, route.operation)
    body = {} if route.body is None else {"requestBody": _body(route.body.full_name)}
    return {
        "operationId": route.operation,
        "tags": [route.method.containing_service.name],
        "summary": summary.partition(". ")[0].rstrip("."),
        "description": summary,
        "parameters": [*_path_fields(route), *_query_fields(route), *_headers(route)],
        **body,
        "responses": dict(_responses(route)),
    }


def _posted(name: str) -> dict[str, Any]:
    """Return what is posted to receivers of a type."""
    return {
        "operationId": name,
        "tags": ["WebhookService"],
        "summary": TYPES[name].when.rstrip("."),
        "description": f"{TYPES[name].when} {_SIGNED}",
        "parameters": [
            {
                "name": header,
                "in": "header",
                "required": True,
                "description": description,
                "schema": {"type": "string"},
            }
            for header, description in _SIGNATURE
        ],
        "requestBody": {
            "required": True,
            "content": {_JSON: {"schema": webhook_schema(name, _BASE)}},
        },
        "responses": {"2XX": {"description": "It was taken. Anything else is tried again."}},
    }


def _path_fields(route: Route) -> Iterator[dict[str, Any]]:
    for name in route.path_fields:
        field = route.request.fields_by_name[name]
        yield {**_parameter(field, "path"), "required": True, "schema": {"type": "string"}}


def _query_fields(route: Route) -> Iterator[dict[str, Any]]:
    for name, found in route.query_fields().items():
        yield {**_parameter(found.field, "query"), "name": name}


def _parameter(field: FieldDescriptor, where: str) -> dict[str, Any]:
    described = comments().get(field.full_name, field.name.replace("_", " "))
    schema = field_schema(field, _BASE)
    return {"name": field.json_name, "in": where, "description": described, "schema": schema}


def _headers(route: Route) -> Iterator[dict[str, Any]]:
    attributes = _ATTRIBUTES if route.payload else _RESUMING if route.streams else ()
    for name, is_required, description in attributes:
        yield {
            "name": name,
            "in": "header",
            "required": is_required,
            "description": description,
            "schema": {"type": "string"},
        }


def _body(message: str) -> dict[str, Any]:
    return {"required": True, "content": _content(_JSON, message)}


def _content(media_type: str, name: str) -> dict[str, Any]:
    return {media_type: {"schema": {"$ref": f"{_BASE}{name}"}}}


def _responses(route: Route) -> Iterator[tuple[str, dict[str, Any]]]:
    if route.payload:
        yield "202", _ACCEPTED
    elif route.streams:
        yield "200", {"description": _STREAM, "content": {EVENTS: {"schema": {"type": "string"}}}}
    else:
        message = route.method.output_type.full_name
        described = comments().get(message, "The answer.")
        yield "200", {"description": described, "content": _content(_JSON, message)}
    if route.body is None and not route.streams:
        yield "304", {"description": "It is what the caller has, by If-None-Match."}
    refusals = _REFUSALS | (_REFUSALS_OF_BODIES if route.body is not None else {})
    for status, words in sorted(refusals.items()):
        content = _content(problems.CONTENT_TYPE, _PROBLEM)
        yield str(int(status)), {"description": words, "content": content}


_ACCEPTED: Final = {
    "description": "The broker has the event. What comes of it is asked at Location.",
    "headers": {
        "Location": {
            "description": "Of a command its outcome, of another fact of a job that job.",
            "schema": {"type": "string"},
        }
    },
    "content": {
        _JSON: {
            "schema": {
                "type": "object",
                "required": ["eventId"],
                "properties": {"eventId": {"type": "string"}},
            }
        }
    },
}

"""The HTTP application: reads requests, calls services, writes answers. It keeps no state."""

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from http import HTTPStatus
from typing import Any, Final, Protocol

import grpc
import orjson
import structlog
from coplace.v1.ingest_service_pb2 import Envelope
from fastapi import FastAPI
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from h11 import LocalProtocolError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute
from starlette.routing import Route as HttpRoute
from starlette.types import Message as ASGIMessage
from starlette.types import Receive, Scope, Send

from coplace_client.health import Readiness
from services.rest import problems
from services.rest.events import LAST_EVENT_ID, EventStream
from services.rest.meter import RestMeter
from services.rest.openapi import document
from services.rest.problems import ProblemError, WrongField
from services.rest.publishing import EventHeaders, location_of, request_name, write_attributes
from services.rest.reading import NoJsonError, Wrongs, parse_json, read_body, read_texts
from services.rest.routes import GET, Locations, Route
from services.rest.settings import RestSettings
from shared.catalogue.answer_json import answer_json

_JSON: Final = "application/json"
_TOKEN: Final = re.compile(r"(?i:bearer) +([A-Za-z0-9_.~+/=-]{1,4096})")
# What is parsed beside the loop, so that other requests go on meanwhile.
_LARGE_BYTES: Final = 65_536
# How long is read what may have arrived already, s.
_ARRIVED_S: Final = 1.0
# An answer is for who asked alone, who may keep it as long as it is unchanged.
_CACHED: Final = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}

log = structlog.get_logger(__name__)


class Caller(Protocol):
    """What asks the services."""

    async def call(self, method: MethodDescriptor, request: Message, token: str) -> Message:
        """Return what a service answers. Raises AioRpcError."""
        ...

    def stream(
        self, method: MethodDescriptor, request: Message, token: str
    ) -> AsyncGenerator[Message, None]:
        """Yield what a service answers one after another. Raises AioRpcError."""
        ...


class _App(FastAPI):
    """An application whose description is made of the same routes."""

    def __init__(
        self, described: Mapping[str, Any], *, docs: bool, routes: list[BaseRoute]
    ) -> None:
        self._described = dict(described)
        super().__init__(
            title="Coplace",
            routes=routes,
            openapi_url="/openapi.json",
            docs_url="/docs" if docs else None,
            redoc_url=None,
            redirect_slashes=False,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. A client that broke HTTP in its body has the server's own answer: ours
        goes nowhere, and is no bug."""

        async def send_on(message: ASGIMessage) -> None:
            with suppress(LocalProtocolError):
                await send(message)

        await super().__call__(scope, receive, send_on)

    def openapi(self) -> dict[str, Any]:
        """Return the description of the routes."""
        return self._described


class RestService:
    """All routes. `now_us` is the time of events that say none of their own."""

    def __init__(
        self,
        routes: Iterable[Route],
        caller: Caller,
        own: RestSettings,
        meter: RestMeter,
        readiness: Readiness,
        now_us: Callable[[], int],
    ) -> None:
        self._routes = tuple(routes)
        self._locations = Locations.among(self._routes)
        self._caller = caller
        self._own = own
        self._meter = meter
        self._readiness = readiness
        self._now_us = now_us
        self._open = self._streams = 0

    def app(self) -> FastAPI:
        """Return the application."""
        found = [HttpRoute("/healthz", self._healthz), HttpRoute("/readyz", self._readyz)]
        described = document(self._routes)
        app = _App(described, docs=self._own.docs, routes=[*found, *self._http_routes()])
        app.add_exception_handler(HTTPException, self._no_route)
        app.add_exception_handler(Exception, _failed)
        return app

    async def _healthz(self, _request: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def _readyz(self, _request: Request) -> Response:
        if waiting_for := self._readiness.waiting_for:
            words = f"waiting for {waiting_for}\n"
            return PlainTextResponse(words, HTTPStatus.SERVICE_UNAVAILABLE)
        return PlainTextResponse("ready\n")

    def _http_routes(self) -> Iterable[HttpRoute]:
        """One a path, with all its verbs: what says which there are answers to any other."""
        by_path: dict[str, dict[str, Route]] = {}
        for route in self._routes:
            by_path.setdefault(route.path, {})[route.verb] = route
        # Paths without fields go before those that take all that follows.
        for path in sorted(by_path, key=lambda each: ("{" in each, each)):
            pattern = f"{path[:-1]}:path}}" if path.endswith("}") else path
            yield HttpRoute(pattern, self._endpoint(by_path[path]), methods=[*by_path[path]])

    def _endpoint(self, by_verb: Mapping[str, Route]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            route = by_verb[GET if request.method == "HEAD" else request.method]
            began_s = time.monotonic()
            try:
                response = await self._limited(route, request)
            except ProblemError as error:
                await self._read_rest(request)
                response = _response_of(error)
            duration_s = time.monotonic() - began_s
            self._meter.answered(route.operation, response.status_code, duration_s)
            return response

        return answer

    async def _limited(self, route: Route, request: Request) -> Response:
        if self._open >= self._own.most_calls:
            words = f"{self._open} requests are being answered: try again"
            raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", words)
        self._open += 1
        try:
            return await self._answer(route, request)
        finally:
            self._open -= 1

    async def _answer(self, route: Route, request: Request) -> Response:
        token, wrongs = _token(request), Wrongs()
        asked = GetMessageClass(route.request)()
        _read_path(route, request, asked, wrongs)
        _read_query(route, request, asked, wrongs)
        if route.payload:
            await self._read_event(route, request, asked, wrongs)
        elif route.body is not None:
            await self._read_body(request, asked, wrongs)
        if wrongs.found:
            raise problems.invalid(wrongs.found)
        if route.streams:
            return await self._stream(route, request, asked, token)
        try:
            answer = await self._caller.call(route.method, asked, token)
        except grpc.aio.AioRpcError as error:
            raise problems.of_call(error, lambda field: request_name(route, field)) from None
        if route.payload:
            return self._accepted(route, asked)
        return _conditional(request, answer_json(answer))

    async def _stream(self, route: Route, request: Request, asked: Any, token: str) -> Response:
        """Begin with the first answer: what is refused before it has a status of its own."""
        if self._streams >= self._own.most_streams:
            words = f"{self._streams} streams are open: try again"
            raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", words)
        if resumed := request.headers.get(LAST_EVENT_ID):
            asked.cursor = resumed

        def problem(error: grpc.aio.AioRpcError) -> ProblemError:
            return problems.of_call(error, lambda field: request_name(route, field))

        async with AsyncExitStack() as opened:
            opened.enter_context(self._stream_open())
            answers = self._caller.stream(route.method, asked, token)
            await opened.enter_async_context(aclosing(answers))
            try:
                first = await anext(answers)
            except grpc.aio.AioRpcError as error:
                raise problem(error) from None
            return EventStream(answers, first, problem, opened.pop_all())

    @contextmanager
    def _stream_open(self) -> Iterator[None]:
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    async def _read_event(self, route: Route, request: Request, asked: Any, wrongs: Wrongs) -> None:
        envelope: Envelope = asked.event
        payload: Message = getattr(envelope, route.payload)
        payload.SetInParent()
        headers = EventHeaders({name.lower(): value for name, value in request.headers.items()})
        write_attributes(envelope, route.payload, headers, self._now_us(), wrongs)
        await self._read_body(request, payload, wrongs)

    async def _read_body(self, request: Request, message: Message, wrongs: Wrongs) -> None:
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != _JSON:
            words = f"the body must be JSON: say Content-Type: {_JSON}"
            raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", words)
        body = await self._body(request)
        try:
            if len(body) > _LARGE_BYTES:
                await asyncio.to_thread(_parse, body, message, wrongs)
            else:
                _parse(body, message, wrongs)
        except NoJsonError as error:
            raise ProblemError(
                HTTPStatus.BAD_REQUEST, "not-json", str(error), [WrongField("", str(error))]
            ) from None

    async def _body(self, request: Request) -> bytes:
        """Read what is not longer than it may be, and comes in time."""
        parts = list[bytes]()
        # What had arrived in time may not have been read then: there was other work.
        for within_s in (self._own.body_within_s, _ARRIVED_S):
            try:
                async with asyncio.timeout(within_s):
                    await self._read_parts(request, parts)
            except TimeoutError:
                continue
            except ClientDisconnect:
                raise ProblemError(499, "cancelled", "the caller ended the request") from None
            return b"".join(parts)
        words = f"the body was not there within {self._own.body_within_s:g} s"
        headers = {"Connection": "close"}
        raise ProblemError(HTTPStatus.REQUEST_TIMEOUT, "body-too-late", words, headers=headers)

    async def _read_parts(self, request: Request, parts: list[bytes]) -> None:
        most, size = self._own.most_body_bytes, sum(map(len, parts))
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > most:
                raise ProblemError(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    "body-too-large",
                    f"the body must have at most {most} bytes",
                    headers={"Connection": "close"},
                )

    async def _no_route(self, request: Request, error: Exception) -> Response:
        """Answer where no route is."""
        await self._read_rest(request)
        assert isinstance(error, HTTPException)
        return _response_without_route(request, error)

    async def _read_rest(self, request: Request) -> None:
        """Read what is left of a body that is refused, within bounds: who closes a connection on
        what was sent takes the answer from its client, too."""
        if "expect" in request.headers:
            return
        size = 0
        with suppress(TimeoutError, ClientDisconnect, RuntimeError):
            async with asyncio.timeout(_ARRIVED_S):
                async for part in request.stream():
                    size += len(part)
                    if size > self._own.most_body_bytes:
                        return

    def _accepted(self, route: Route, asked: Any) -> Response:
        location = location_of(asked.event, route.payload, self._locations)
        return Response(
            orjson.dumps({"eventId": asked.event.id}),
            HTTPStatus.ACCEPTED,
            {"Location": location} if location else {},
            _JSON,
        )


def _parse(body: bytes, message: Message, wrongs: Wrongs) -> None:
    read_body(parse_json(body), message, wrongs)


def _token(request: Request) -> str:
    """Return the token that is shown, empty where none is. Raises ProblemError for anything else
    in its place."""
    shown = request.headers.getlist("authorization")
    if not shown:
        return ""
    found = _TOKEN.fullmatch(shown[0].strip())
    if found is None or len(shown) > 1:
        words = "the header Authorization must be one: Bearer TOKEN"
        raise ProblemError(HTTPStatus.UNAUTHORIZED, "unauthenticated", words)
    return found[1]


def _read_path(route: Route, request: Request, asked: Message, wrongs: Wrongs) -> None:
    """Read the path as it was sent: what the server decoded has replaced what is no UTF-8."""
    try:
        texts = route.path_values(request.scope["raw_path"])
    except UnicodeDecodeError:
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, "invalid-argument", "the path must be percent-encoded UTF-8"
        ) from None
    if texts is None:
        raise _unknown_path(request)
    for name, text in texts.items():
        field = route.request.fields_by_name[name]
        read_texts(field, field.json_name, [text], asked, wrongs)


def _read_query(route: Route, request: Request, asked: Message, wrongs: Wrongs) -> None:
    fields = route.query_fields()
    given, chosen = dict[str, list[str]](), dict[str, str]()
    for name, text in request.query_params.multi_items():
        given.setdefault(name, []).append(text)
    for name, texts in given.items():
        if name in fields:
            found = fields[name]
            member = found.of or found.field.name
            oneof = route.request.fields_by_name[member].containing_oneof
            if oneof is not None and chosen.setdefault(oneof.name, member) != member:
                wrongs.add(name, f"goes without {chosen[oneof.name]}")
                continue
            message = getattr(asked, found.of) if found.of else asked
            read_texts(found.field, name, texts, message, wrongs)
        else:
            known = ", ".join(sorted(fields)) or "none"
            wrongs.add(name[:40], f"is unknown: the query has {known}")


def _conditional(request: Request, body: bytes) -> Response:
    """Answer with the whole, or that it is what the caller has."""
    if request.method not in (GET, "HEAD"):
        return Response(body, headers={"Cache-Control": "no-store"}, media_type=_JSON)
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, **_CACHED}
    known = ",".join(request.headers.getlist("if-none-match"))
    if any(each.strip().removeprefix("W/") in (tag, "*") for each in known.split(",")):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(body, headers=headers, media_type=_JSON)


def _response_of(error: ProblemError) -> Response:
    body = orjson.dumps(error.document())
    return Response(body, error.status, error.headers, problems.CONTENT_TYPE)


def _unknown_path(request: Request) -> ProblemError:
    words = f"there is nothing at {request.url.path[:80]!r}: /openapi.json says what there is"
    return ProblemError(HTTPStatus.NOT_FOUND, "unknown-path", words)


def _response_without_route(request: Request, error: HTTPException) -> Response:
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return _response_of(_unknown_path(request))
    headers = dict(error.headers or {})
    words = f"{request.method[:20]} is not for this path: {headers.get('Allow', '')} are"
    return _response_of(
        ProblemError(HTTPStatus.METHOD_NOT_ALLOWED, "method-not-allowed", words, headers=headers)
    )


async def _failed(_request: Request, error: Exception) -> Response:
    """Answer where this process has a bug, which is in its log."""
    log.error("a request failed", exc_info=error)
    words = "this is a bug: its traceback is in the log of the process"
    return _response_of(ProblemError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", words))

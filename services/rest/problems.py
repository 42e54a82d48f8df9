"""What went wrong, as RFC 9457 has it: a stable type, words, and each field that is wrong.

https://www.rfc-editor.org/rfc/rfc9457
https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest
from google.rpc.status_pb2 import Status

CONTENT_TYPE: Final = "application/problem+json"
_URN: Final = "urn:coplace:problem:"
_RETRY_AFTER: Final = {"Retry-After": "1"}
# The caller gave up: no status that is registered says so.
_GAVE_UP: Final = 499
_STATUS_OF_CODE: Final[Mapping[grpc.StatusCode, int]] = {
    grpc.StatusCode.CANCELLED: _GAVE_UP,
    grpc.StatusCode.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
    grpc.StatusCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS: HTTPStatus.CONFLICT,
    grpc.StatusCode.PERMISSION_DENIED: HTTPStatus.FORBIDDEN,
    grpc.StatusCode.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: HTTPStatus.TOO_MANY_REQUESTS,
    grpc.StatusCode.FAILED_PRECONDITION: HTTPStatus.BAD_REQUEST,
    grpc.StatusCode.ABORTED: HTTPStatus.CONFLICT,
    grpc.StatusCode.OUT_OF_RANGE: HTTPStatus.BAD_REQUEST,
}
_HEADERS_OF_STATUS: Final[Mapping[int, Mapping[str, str]]] = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"},
    HTTPStatus.TOO_MANY_REQUESTS: _RETRY_AFTER,
    HTTPStatus.SERVICE_UNAVAILABLE: _RETRY_AFTER,
}
_DETAILS: Final = "grpc-status-details-bin"
# How a service names a field that is wrong: `field[3].inner: must be ...`.
_NAMED_FIELD: Final = re.compile(
    r"([a-z]\w*(?:\[\d+\])?(?:\.[a-z]\w*(?:\[\d+\])?)*): (.+)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class WrongField:
    """One field of a request that is wrong, and what it must be."""

    field: str
    detail: str


class ProblemError(Exception):
    """A request that is answered by a problem instead of what it asks for."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        errors: Sequence[WrongField] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.errors = errors
        self.headers = {**_HEADERS_OF_STATUS.get(status, {}), **(headers or {})}

    def document(self) -> dict[str, Any]:
        """Return what the answer's body says."""
        errors = [{"field": one.field, "detail": one.detail} for one in self.errors]
        return {
            "type": f"{_URN}{self.kind}",
            "title": self.kind.replace("-", " "),
            "status": int(self.status),
            "detail": self.detail,
            **({"errors": errors} if errors else {}),
        }


def invalid(errors: Sequence[WrongField]) -> ProblemError:
    """Return the problem of a request with wrong fields."""
    detail = "; ".join(f"{one.field}: {one.detail}" for one in errors[:3])
    more = f"; and {len(errors) - 3} more" if len(errors) > 3 else ""
    return ProblemError(HTTPStatus.BAD_REQUEST, "invalid-argument", detail + more, errors)


def of_call(error: grpc.aio.AioRpcError, name: Callable[[str], str]) -> ProblemError:
    """Return the problem of a call that a service refused; `name` says what a field of the
    service's is called in the request."""
    code, details = error.code(), error.details() or ""
    status = _STATUS_OF_CODE.get(code, int(HTTPStatus.SERVICE_UNAVAILABLE))
    kind = code.name.lower().replace("_", "-")
    violated = _violations(error)
    if not violated and code is grpc.StatusCode.INVALID_ARGUMENT:
        violated = [
            WrongField(*found.groups()) for found in [_NAMED_FIELD.fullmatch(details)] if found
        ]
    errors = [WrongField(name(one.field), one.detail) for one in violated]
    return ProblemError(status, kind, details or "the service gave no reason", errors)


def _violations(error: grpc.aio.AioRpcError) -> list[WrongField]:
    """Return the fields that a typed error names; none where it is not typed."""
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS and isinstance(value, bytes):
            return list(_typed(value))
    return []


def _typed(value: bytes) -> list[WrongField]:
    bad = BadRequest()
    try:
        found = [one for one in Status.FromString(value).details if one.Unpack(bad)]
    except DecodeError:
        return []
    if not found:
        return []
    return [WrongField(one.field, one.description) for one in bad.field_violations]

"""What a caller gets in place of an answer: words for people, details for programs.

The details are those of google.rpc, which tools of every language read: each violated field, or a
reason that never changes, and when to try again.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final, Self

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from coplace_client.errors import RejectedError

DOMAIN: Final = "coplace"
# What another try, later, may change.
_TRIED_AGAIN: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})
_TRY_AGAIN_AFTER_S: Final = 1
# Clients take 8 KiB of metadata. Of that the words use three times their bytes at most, and the
# status, which has them again, four thirds.
_MOST_WORDS_BYTES: Final = 1_024
_MOST_FIELDS_BYTES: Final = 2_048
_MOST_PROBLEM_BYTES: Final = 256


class RefusalReason(StrEnum):
    """Why a call was refused, for programs: a word is never changed, nor used for another thing."""

    CALLER_UNKNOWN = "CALLER_UNKNOWN"
    SOURCE_OF_ANOTHER = "SOURCE_OF_ANOTHER"
    NOT_ALLOWED = "NOT_ALLOWED"
    JOB_UNKNOWN = "JOB_UNKNOWN"
    CLUSTER_UNKNOWN = "CLUSTER_UNKNOWN"
    ACCOUNT_UNKNOWN = "ACCOUNT_UNKNOWN"
    WEBHOOK_UNKNOWN = "WEBHOOK_UNKNOWN"
    WEBHOOK_DISABLED = "WEBHOOK_DISABLED"
    SERVICE_UNKNOWN = "SERVICE_UNKNOWN"
    DECLARED_MEANWHILE = "DECLARED_MEANWHILE"
    REGION_NOT_READ = "REGION_NOT_READ"
    ISSUER_NOT_READ = "ISSUER_NOT_READ"
    STANDBY = "STANDBY"
    NO_ROUND_YET = "NO_ROUND_YET"
    TOO_MANY_CALLS = "TOO_MANY_CALLS"
    SERVER_BUSY = "SERVER_BUSY"
    TOO_MANY_STREAMS = "TOO_MANY_STREAMS"
    STREAM_IDLE = "STREAM_IDLE"
    LONGEST_CALL = "LONGEST_CALL"
    FELL_BEHIND = "FELL_BEHIND"
    CURSOR_OUT_OF_RANGE = "CURSOR_OUT_OF_RANGE"
    SERVICE_ENDS = "SERVICE_ENDS"


class RefusedCallError(Exception):
    """An error for the caller instead of an answer; nothing is wrong with this process."""

    def __init__(
        self,
        code: grpc.StatusCode,
        details: str,
        reason: RefusalReason | None = None,
        violations: RejectedError | None = None,
    ) -> None:
        super().__init__(details)
        self.code = code
        self.details = details
        self.reason = reason
        self.violations = violations

    @classmethod
    def invalid(cls, violations: RejectedError, details: str = "") -> Self:
        """Return the refusal of a request with violated fields; its words are those of the first,
        unless others are given."""
        code = grpc.StatusCode.INVALID_ARGUMENT
        return cls(code, details or str(violations), violations=violations)


def abort_arguments(refusal: RefusedCallError) -> tuple[grpc.StatusCode, str, Any]:
    """Return what ends a call by a refusal: code, words, and details as trailing metadata."""
    code: int = refusal.code.value[0]
    status = Status(code=code, message=_short(refusal.details, _MOST_WORDS_BYTES))
    for detail in _details(refusal):
        status.details.add().Pack(detail)
    found = rpc_status.to_status(status)
    return found.code, found.details, found.trailing_metadata


def _details(refusal: RefusedCallError) -> Iterator[Message]:
    if refusal.violations is not None:
        yield _bad_request(refusal.violations)
    if refusal.reason is not None:
        yield ErrorInfo(reason=refusal.reason, domain=DOMAIN)
    if refusal.code in _TRIED_AGAIN:
        yield RetryInfo(retry_delay=Duration(seconds=_TRY_AGAIN_AFTER_S))


def _bad_request(violations: RejectedError) -> BadRequest:
    """Return all violated fields, or as many as an answer carries; then the last one says how many
    more there are."""
    every, bad = list(violations.each()), BadRequest()
    for number, one in enumerate(every):
        bad.field_violations.add(
            field=_short(one.field, _MOST_PROBLEM_BYTES),
            description=_short(one.problem, _MOST_PROBLEM_BYTES),
        )
        if number and bad.ByteSize() > _MOST_FIELDS_BYTES:
            del bad.field_violations[-1]
            bad.field_violations.add(description=f"{len(every) - number} more fields are violated")
            break
    return bad


def _short(text: str, most_bytes: int) -> str:
    return text.encode(errors="replace")[:most_bytes].decode(errors="ignore")

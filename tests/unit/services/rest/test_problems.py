"""What a service refuses, as problems."""

from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import BadRequest
from google.rpc.status_pb2 import Status

from services.rest.problems import of_call


def refused(
    code: grpc.StatusCode, details: str = "why", trailing: tuple[tuple[str, Any], ...] = ()
) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailing), details=details
    )


# https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto, but for what is the
# service's fault: there is nothing that a caller could do about it but to ask again.
_STATUSES = {
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.UNKNOWN: 503,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.DEADLINE_EXCEEDED: 503,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNIMPLEMENTED: 503,
    grpc.StatusCode.INTERNAL: 503,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DATA_LOSS: 503,
}


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code.value[0]])
def test_each_code_of_grpc_has_a_status_and_a_stable_type(code: grpc.StatusCode) -> None:
    problem = of_call(refused(code), str)
    assert problem.status == _STATUSES[code]
    assert problem.document()["type"] == "urn:coplace:problem:" + code.name.lower().replace(
        "_", "-"
    )
    assert ("Retry-After" in problem.headers) == (problem.status in (429, 503))


def test_a_typed_error_names_every_field() -> None:
    bad = BadRequest()
    bad.field_violations.add(field="job_submitted.nodes", description="must be 1 to 9")
    bad.field_violations.add(field="id", description="is missing")
    packed = AnyMessage()
    packed.Pack(bad)
    status = Status(code=3, message="nodes", details=[AnyMessage(type_url="x/y"), packed])
    trailing = (("grpc-status-details-bin", status.SerializeToString()),)
    error = refused(grpc.StatusCode.INVALID_ARGUMENT, "nodes", trailing)
    errors = of_call(error, str.upper).document()["errors"]
    assert errors == [
        {"field": "JOB_SUBMITTED.NODES", "detail": "must be 1 to 9"},
        {"field": "ID", "detail": "is missing"},
    ]


def test_a_plain_error_names_the_field_before_the_colon() -> None:
    error = refused(grpc.StatusCode.INVALID_ARGUMENT, "steps[2].from_us: must be later: 5")
    assert of_call(error, str).document()["errors"] == [
        {"field": "steps[2].from_us", "detail": "must be later: 5"}
    ]


@pytest.mark.parametrize("details", ["is not a valid request", "Of all: none", "", "http://x"])
def test_words_without_a_field_name_none(details: str) -> None:
    problem = of_call(refused(grpc.StatusCode.INVALID_ARGUMENT, details), str)
    assert "errors" not in problem.document()
    assert problem.detail


def test_details_that_are_no_status_are_left_out() -> None:
    trailing = (("grpc-status-details-bin", b"\xff\xff"),)
    error = refused(grpc.StatusCode.INVALID_ARGUMENT, "nodes: must be 1 to 9", trailing)
    assert [one.field for one in of_call(error, str).errors] == ["nodes"]

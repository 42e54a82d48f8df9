"""What a refusal carries beside its words, and that clients take it."""

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest
from google.rpc.status_pb2 import Status

from coplace_client.errors import MOST_VIOLATIONS, RejectedError, Violations
from shared.process.grpc_errors import RefusedCallError, abort_arguments

# What clients take of metadata unless they say otherwise; each entry counts 32 bytes more.
_MOST_METADATA_BYTES = 8_192


def rejected(*fields: str, problem: str = "must be above 0") -> RejectedError:
    wrong = Violations()
    try:
        for name in fields:
            wrong.add(RejectedError(name, problem))
        wrong.require_none()
    except RejectedError as error:
        return error
    pytest.fail("nothing is wrong")


@pytest.mark.parametrize("sign", ["a", "\u20ac", "\U0001f600", "\n"])
def test_the_longest_words_and_fields_are_not_more_than_clients_take(sign: str) -> None:
    error = rejected(*(f"{sign * 5_000}[{n}]" for n in range(40)), problem=sign * 5_000)
    _, words, metadata = abort_arguments(RefusedCallError.invalid(error))
    percent_encoded = sum(1 if 32 <= byte < 127 else 3 for byte in words.encode())
    [(key, value)] = metadata
    in_base64 = len(value) * 4 / 3
    assert percent_encoded + len(key) + in_base64 + 3 * 32 < _MOST_METADATA_BYTES


def test_the_words_of_the_status_are_those_of_the_call() -> None:
    code, words, [(_, data)] = abort_arguments(RefusedCallError.invalid(rejected("a", "b")))
    status = Status.FromString(data)
    assert (code, words) == (grpc.StatusCode.INVALID_ARGUMENT, "a: must be above 0")
    assert (status.code, status.message) == (code.value[0], words)
    bad = BadRequest()
    assert status.details[0].Unpack(bad)
    assert [each.field for each in bad.field_violations] == ["a", "b"]


def test_of_endless_violations_so_many_are_kept() -> None:
    every = list(rejected(*(f"a[{n}]" for n in range(MOST_VIOLATIONS * 3))).each())
    assert [each.field for each in every] == [f"a[{n}]" for n in range(MOST_VIOLATIONS)]


def test_a_part_of_a_part_has_its_whole_path() -> None:
    error = rejected("x", "").inside("b").inside("a[1]")
    assert [each.field for each in error.each()] == ["a[1].b.x", "a[1].b"]
    assert str(error) == "a[1].b.x: must be above 0"

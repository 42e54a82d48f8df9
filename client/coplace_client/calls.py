"""Calls over gRPC that wait for the answer, and what it means that there is none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc

from coplace_client.channels import GrpcSettings, grpc_channel
from coplace_client.errors import UnusableError
from coplace_client.tls import grpc_problem

# Where gRPC has what a refusal says for programs.
_STATUS: Final = "grpc-status-details-bin"


# What no second try changes: the fact is no valid one, or not for this source to say.
REFUSED: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED})


class UnansweredError(UnusableError):
    """The service refused, or is not there; the message says at which address, and what to do.

    `status` is the google.rpc.Status in bytes that the service answered, empty where it did not:
    whoever has googleapis-common-protos reads every violated field in it, or the reason.
    """

    def __init__(self, address: str, error: Any, problem: str = "") -> None:
        self.code: grpc.StatusCode = error.code()
        self.status = status_of(error)
        advice = ": is the service up there?" if _is_absent(error) else ""
        super().__init__(problem or f"{address}: {error.details()}{advice}")

    @property
    def is_refusal(self) -> bool:
        """Return whether no second try changes it."""
        return self.code in REFUSED


@contextmanager
def calling(address: str, settings: GrpcSettings) -> Iterator[grpc.Channel]:
    """Open a channel to the service at an address. Raises UnansweredError where a call fails, with
    what is wrong about certificates where it is that."""
    try:
        with grpc_channel(address, settings) as channel:
            yield channel
    except grpc.RpcError as error:
        problem = grpc_problem(settings, address) if _is_absent(error) else ""
        raise UnansweredError(address, error, problem) from error


def status_of(error: Any) -> bytes:
    """Return the google.rpc.Status in bytes that came with a failed call; empty where none did."""
    entries = error.trailing_metadata() or ()
    return next((bytes(value) for key, value in entries if key == _STATUS), b"")


def _is_absent(error: Any) -> bool:
    return bool(error.code() is grpc.StatusCode.UNAVAILABLE)

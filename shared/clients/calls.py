"""Calls over gRPC by who waits for the answer, and what it means that there is none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from shared.domain.errors import UnusableError
from shared.runtime.grpc_security import grpc_channel
from shared.runtime.refusals import grpc_problem
from shared.runtime.settings import Settings


class UnansweredError(UnusableError):
    """The service refused, or is not there; the message says at which address, and what to do."""

    def __init__(self, address: str, error: Any, problem: str = "") -> None:
        self.code: grpc.StatusCode = error.code()
        is_there = self.code is not grpc.StatusCode.UNAVAILABLE
        advice = "" if is_there else ": is the service up there?"
        super().__init__(problem or f"{address}: {error.details()}{advice}")


@contextmanager
def calling(address: str, settings: Settings) -> Iterator[grpc.Channel]:
    """A channel to the service at an address. Raises UnansweredError where a call fails, with what
    is wrong about certificates where it is that."""
    try:
        with grpc_channel(address, settings) as channel:
            yield channel
    except grpc.RpcError as error:
        raise _unanswered(address, settings, error) from error


def _unanswered(address: str, settings: Settings, error: Any) -> UnansweredError:
    is_there = error.code() is not grpc.StatusCode.UNAVAILABLE
    return UnansweredError(address, error, "" if is_there else grpc_problem(settings, address))

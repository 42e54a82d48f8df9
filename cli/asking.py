"""What commands ask services over gRPC."""

from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from shared.domain.errors import UnusableError
from shared.runtime.grpc_security import grpc_channel
from shared.runtime.settings import settings


class UnansweredError(UnusableError):
    """The service refused, or is not there."""


@contextmanager
def asking(address: str) -> Iterator[grpc.Channel]:
    """A channel to the service at an address. Raises UnansweredError where a call fails."""
    try:
        with grpc_channel(address, settings()) as channel:
            yield channel
    except grpc.RpcError as error:
        is_there = error.code() is not grpc.StatusCode.UNAVAILABLE
        advice = "" if is_there else ": is the service up there?"
        raise UnansweredError(f"{address}: {error.details()}{advice}") from error

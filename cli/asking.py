"""What commands ask services over gRPC."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import grpc
import typer
from coplace.v1.ingest_service_pb2 import Envelope, PublishRequest
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub

from shared.domain.errors import UnusableError
from shared.runtime.grpc_security import grpc_channel
from shared.runtime.refusals import grpc_problem
from shared.runtime.settings import settings

Placement = Annotated[
    str, typer.Option(envvar="COPLACE_PLACEMENT_ADDRESS", help="host:port of placement.")
]
Ingest = Annotated[str, typer.Option(envvar="COPLACE_INGEST_ADDRESS", help="host:port of ingest.")]
_WITHIN_S: Final = 60.0


class UnansweredError(UnusableError):
    """The service refused, or is not there."""


@contextmanager
def asking(address: str) -> Iterator[grpc.Channel]:
    """A channel to the service at an address. Raises UnansweredError where a call fails."""
    try:
        with grpc_channel(address, settings()) as channel:
            yield channel
    except grpc.RpcError as error:
        raise UnansweredError(_refusal(address, error)) from error


def _refusal(address: str, error: Any) -> str:
    if error.code() is not grpc.StatusCode.UNAVAILABLE:
        return f"{address}: {error.details()}"
    advice = f"{address}: {error.details()}: is the service up there?"
    return grpc_problem(settings(), address) or advice


def publish(ingest: str, event: Envelope) -> None:
    """Hand an event to ingest. Raises UnansweredError where it is refused."""
    with asking(ingest) as channel:
        IngestServiceStub(channel).Publish(PublishRequest(event=event), timeout=_WITHIN_S)

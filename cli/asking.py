"""What commands ask services over gRPC."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import grpc
import typer
from coplace.v1.ingest_service_pb2 import Envelope

from coplace_client import ingest as clients
from coplace_client.calls import calling
from shared.process.settings import settings

Placement = Annotated[
    str, typer.Option(envvar="COPLACE_PLACEMENT_ADDRESS", help="host:port of placement.")
]
Ingest = Annotated[str, typer.Option(envvar="COPLACE_INGEST_ADDRESS", help="host:port of ingest.")]


@contextmanager
def asking(address: str) -> Iterator[grpc.Channel]:
    """Open a channel to the service at an address. Raises UnansweredError where a call fails."""
    with calling(address, settings()) as channel:
        yield channel


def publish(ingest: str, event: Envelope) -> None:
    """Hand an event to ingest. Raises UnansweredError where it is refused."""
    clients.publish(ingest, settings(), event)

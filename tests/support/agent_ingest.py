"""An ingest that notes what an agent publishes."""

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
from coplace.v1.ingest_service_pb2 import (
    Envelope,
    PublishRequest,
    PublishResponse,
    PublishStreamResponse,
    ShowAuthorityRequest,
    ShowAuthorityResponse,
    ShowIssuerRequest,
    ShowIssuerResponse,
    ShowOutcomeRequest,
    ShowOutcomeResponse,
)
from coplace.v1.ingest_service_pb2_grpc import (
    IngestServiceServicer,
    add_IngestServiceServicer_to_server,
)


class Ingest(IngestServiceServicer):
    """Notes what it gets and gives the set answers, in turn; then OK."""

    def __init__(self) -> None:
        self.got: list[Envelope] = []
        self.answers: list[grpc.StatusCode] = []

    def Publish(self, request: PublishRequest, context: Any) -> PublishResponse:  # noqa: N802
        """One event."""
        self.got.append(request.event)
        code = self.answers.pop(0) if self.answers else grpc.StatusCode.OK
        if code is not grpc.StatusCode.OK:
            context.abort(code, "as set")
        return PublishResponse()

    def ShowOutcome(self, request: ShowOutcomeRequest, context: Any) -> ShowOutcomeResponse:  # noqa: N802
        """No owner answers here."""
        return ShowOutcomeResponse()

    def ShowIssuer(self, request: ShowIssuerRequest, context: Any) -> ShowIssuerResponse:  # noqa: N802
        """No issuer is declared."""
        return ShowIssuerResponse()

    def ShowAuthority(  # noqa: N802
        self, request: ShowAuthorityRequest, context: Any
    ) -> ShowAuthorityResponse:
        """No table is declared."""
        return ShowAuthorityResponse()

    def PublishStream(self, request_iterator: Any, context: Any) -> PublishStreamResponse:  # noqa: N802
        """Agents do not use it."""
        raise NotImplementedError


@contextmanager
def served(ingest: Ingest, port: int = 0) -> Iterator[int]:
    """Its port."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    add_IngestServiceServicer_to_server(ingest, server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()

"""What is to be done that concerns no API server."""

from dataclasses import dataclass

from coplace.v1.ingest_service_pb2 import Envelope


@dataclass(frozen=True, slots=True)
class PublishFact:
    """Hand a fact to ingest. What follows waits until it is acknowledged."""

    event: Envelope

    def __str__(self) -> str:
        return f"published {self.event.WhichOneof('payload')}"

"""What is to be done that concerns no API server, for Jobs and Workloads alike."""

from dataclasses import dataclass

from coplace.v1.ingest_service_pb2 import Envelope


@dataclass(frozen=True, slots=True)
class PublishFact:
    """Hand a fact to ingest. What follows waits until it is acknowledged."""

    event: Envelope

    def __str__(self) -> str:
        return f"published {self.event.WhichOneof('payload')}"


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Look at the object again after some time, s, though nothing has changed."""

    after_s: float

    def __str__(self) -> str:
        return f"looked at again in {self.after_s:g} s"

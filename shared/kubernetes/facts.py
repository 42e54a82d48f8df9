"""Who takes facts."""

from typing import Protocol

from coplace.v1.ingest_service_pb2 import Envelope


class FactTaker(Protocol):
    """Who takes facts: ingest."""

    async def tell(self, event: Envelope) -> None: ...

"""What ingest counts."""

from coplace.v1.ingest_service_pb2 import Envelope
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.metrics import Meter

from services.ingest.payloads import KINDS
from shared.catalogue.event import Publish


class IngestMeter:
    """Counters of what came in, by type."""

    def __init__(self, meter: Meter) -> None:
        self._published = meter.create_counter("ingest_published", description="Events taken")
        self._rejected = meter.create_counter("ingest_rejected", description="Events refused")
        self._unknown = meter.create_counter(
            "ingest_unknown_fields", description="Fields that this version does not know"
        )
        self._rejected.add(0)
        for name in KINDS:
            payload = getattr(Envelope(), name)
            self._published.add(0, {"type": payload.DESCRIPTOR.full_name})

    def published(self, publish: Publish) -> None:
        """Count an event that was accepted."""
        self._published.add(1, {"type": publish.event.type})
        unknown = len(UnknownFieldSet(publish.event.payload))
        if unknown:
            self._unknown.add(unknown, {"type": publish.event.type})

    def rejected(self) -> None:
        """Count an event that was refused."""
        self._rejected.add(1)

"""What ingest counts."""

from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.metrics import Meter

from shared.messaging.event import Publish


class IngestMeter:
    """Counters of what came in, by type."""

    def __init__(self, meter: Meter) -> None:
        self._published = meter.create_counter("ingest_published", description="Events taken")
        self._rejected = meter.create_counter("ingest_rejected", description="Events refused")
        self._unknown = meter.create_counter(
            "ingest_unknown_fields", description="Fields that this version does not know"
        )

    def published(self, publish: Publish) -> None:
        """An event was accepted."""
        self._published.add(1, {"type": publish.event.type})
        unknown = len(UnknownFieldSet(publish.event.payload))
        if unknown:
            self._unknown.add(unknown, {"type": publish.event.type})

    def rejected(self) -> None:
        """An event was refused."""
        self._rejected.add(1)

"""A codec that decodes each record once: in one process all workers and the auditor read the same
log, and its records do not change."""

from shared.catalogue.codec import Codec
from shared.catalogue.event import Event
from shared.catalogue.record import Record


class RememberingCodec(Codec):
    """Decodes as another does, and gives the same event for the same record."""

    def __init__(self, codec: Codec) -> None:
        super().__init__(codec.topics, codec.max_message_bytes, is_guarded=codec.is_guarded)
        # A record is kept beside its event, so that no other ever has its identity.
        self._decoded: dict[tuple[int, bool], tuple[Record, Event]] = {}

    def decode(self, record: Record, *, of_any_count: bool = False) -> Event:
        """The event of a record. Raises RejectedError."""
        name = id(record), of_any_count
        if (known := self._decoded.get(name)) is None:
            event = super().decode(record, of_any_count=of_any_count)
            known = self._decoded[name] = record, event
        return known[1]

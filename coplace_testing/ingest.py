"""Ingest beside a log in memory: the checks of the service, without gRPC."""

from typing import Final

from coplace.v1.authority_pb2 import AuthorityDeclared
from coplace.v1.ingest_service_pb2 import Envelope

from coplace_client.errors import RejectedError
from coplace_testing.topics import TopicReader
from services.ingest.judge import DECLARE, Judge
from services.ingest.model import Intake, check_source
from services.ingest.region import KnownRegion
from services.ingest.settings import IngestSettings
from shared.authority.table import TableInForce
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event, Publish
from shared.streams.in_memory.log import InMemoryLog

_DAY_US: Final = 86_400_000_000


class EmbeddedIngest:
    """Validates events and appends them; without a `gate` whatever is valid comes in."""

    def __init__(
        self, log: InMemoryLog, codec: Codec, intake: Intake, gate: "EmbeddedGate | None" = None
    ) -> None:
        self._log, self._codec, self._intake, self._gate = log, codec, intake, gate

    def take(self, envelope: Envelope, now_us: int, identity: str = "") -> Publish:
        """Take an event in and return it; raise RejectedError for one that is refused."""
        if identity:
            check_source(envelope, identity)
        accepted = self._intake.accept(envelope, now_us / 1e6)
        if self._gate is not None:
            self._gate.admit(identity, str(envelope.WhichOneof("payload")), accepted)
        self._log.append(self._codec.encode(accepted))
        return accepted


class EmbeddedGate:
    """Holds each event against the table of authority that was declared last."""

    def __init__(self, log: InMemoryLog, codec: Codec) -> None:
        own = IngestSettings()
        remember_us = round(own.remember_days * _DAY_US)
        self._table, self._known = TableInForce(), KnownRegion(remember_us, own.site_clusters)
        self._judge = Judge(self._table, self._known)
        self._decisions = TopicReader(log, codec, ["placement.decisions"])

    def admit(self, identity: str, action: str, accepted: Publish) -> None:
        """Fold what an identity says; raise RejectedError where it may not say it."""
        for event in self._decisions.read():
            self._known.fold(event)
        if self._table.now is not None or action == DECLARE:
            request, verdict = self._judge.judge(identity, action, accepted)
            if not verdict.is_allowed:
                raise RejectedError("identity", request.refusal(verdict.reason))
        self._fold(accepted.event)

    def _fold(self, event: Event) -> None:
        if isinstance(event.payload, AuthorityDeclared):
            self._table.fold(event)
        else:
            self._known.fold(event)

"""Who may hand ingest what: the table of authority, asked of each payload."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

import structlog
from coplace.v1.authority_pb2 import AuthorityDeclared

from coplace_client.errors import RejectedError
from services.ingest.judge import DECLARE, Judge, needs_newest
from services.ingest.region import FOLDED, KnownRegion
from services.ingest.settings import IngestSettings
from shared.authority.door import AccessRequest, Door
from shared.authority.following import Followed, FollowedWhenNeeded
from shared.authority.naming import said_by_others
from shared.authority.rules import About, AccessVerdict
from shared.catalogue.event import Publish
from shared.catalogue.options import rule_of
from shared.catalogue.record import TopicPartition
from shared.catalogue.schemas import descriptor_of
from shared.process.clock import now_us
from shared.streams.on_kafka.deployment import Deployment

_DAY_US: Final = 86_400_000_000
# What is declared is on record beside what is refused. Facts of jobs are in their topic, with their
# source, and of telemetry there are thousands a second: both are counted.
_RECORDED: Final = ("commands", "billing", "authority")
_NO_TABLE: Final = "no table of authority is declared"
_BY_SOURCE: Final = f"{_NO_TABLE}, and no certificate is shown: who it is says the event alone"

log = structlog.get_logger(__name__)


class NotAllowedError(Exception):
    """The caller may not; the message says why, and it is on record."""


class NotYetKnownError(Exception):
    """It is not known now whether the caller may: what that depends on cannot be read up to now."""


class RegionFollowed(FollowedWhenNeeded):
    """What is known of the region, read from Kafka from when it is first needed. A context."""

    def __init__(
        self, deployment: Deployment, own: IngestSettings, crash: Callable[[Exception], object]
    ) -> None:
        super().__init__(self._followed, crash)
        self._deployment = deployment
        self._remember_us = round(own.remember_days * _DAY_US)
        self.known = KnownRegion(self._remember_us, own.site_clusters)

    async def caught_up(self, about: About) -> None:
        """Return when all that is committed of these clusters and this job is known. Raises
        NotYetKnownError where that takes too long."""
        followed = await self.ready()
        topics = self._deployment.topics
        partitions = list[TopicPartition]()
        if about.clusters:
            partitions += topics.partitions("commands")
        if about.job is not None:
            job_topics = ("jobs.events", "placement.decisions")
            partitions += [topics.partition_of(name, about.job.job_id) for name in job_topics]
        if not partitions:
            return
        try:
            await followed.caught_up(partitions)
        except TimeoutError:
            raise NotYetKnownError(f"what is known of {about} is behind: try again") from None

    def _followed(self) -> Followed:
        kinds = [kind for found in FOLDED.values() for kind in found]
        since_us = now_us() - self._remember_us
        times = {name: since_us for name in FOLDED if name != "commands"}
        return Followed(self._deployment, list(FOLDED), kinds, self.known.fold, times)


class Gate:
    """Holds each event against the table in force; without one, whatever is valid comes in."""

    def __init__(self, door: Door, declared: Followed, region: RegionFollowed) -> None:
        self.door = door
        self._judging = Judge(door.table, region.known)
        self._declared = declared
        self._region = region

    async def open(self) -> None:
        """Read what there is to know before the first call, and log whether access is
        restricted."""
        self.door.announce()
        if not self.door.is_open:
            await self._region.ready()

    async def as_said_by(self, who: str, action: str, publish: Publish) -> Publish:
        """Return what the caller says by this: a field that they may not leave out says what is
        their own. Raises NotYetKnownError."""
        others = said_by_others(publish.event.payload)
        if others is None or self.door.is_open:
            return publish
        _, verdict = await self._verdict(who, action, publish)
        if verdict.is_allowed:
            return publish
        return replace(publish, event=replace(publish.event, payload=others))

    async def admit(self, who: str, action: str, publish: Publish) -> Sequence[Awaitable[object]]:
        """Return if the caller may say this: the records of the audit that are on their way.

        Raises NotAllowedError, NotYetKnownError, and RejectedError for a table that would not
        count.
        """
        if self.door.is_open and action != DECLARE:
            return await self._record_open(who, action, publish)
        attempt, verdict = await self._judge(who, action, publish)
        if not verdict.is_allowed:
            await (await self.door.record(attempt, verdict))
            raise NotAllowedError(verdict.reason)
        if _is_recorded(publish):
            return (await self.door.record(attempt, verdict),)
        return ()

    async def _record_open(
        self, who: str, action: str, publish: Publish
    ) -> Sequence[Awaitable[object]]:
        """Put on record who declares and orders while everybody may: by their certificate, else by
        what they call themselves."""
        if not _is_recorded(publish):
            return ()
        attempt = self._judging.request(who or publish.event.source, action, publish)
        verdict = AccessVerdict(True, _NO_TABLE if who else _BY_SOURCE)
        return (await self.door.record(attempt, verdict),)

    async def refuse(self, who: str, action: str, event_id: str, reason: str) -> None:
        """Put on record that somebody spoke for somebody else, where a table is in force."""
        if self.door.is_open:
            return
        attempt = AccessRequest(who, action, About(), event_id)
        verdict = self.door.counted(attempt, AccessVerdict(False, reason))
        await (await self.door.record(attempt, verdict))

    async def confirm(self, publish: Publish) -> None:
        """Return when a table that was published is in force here. Raises RejectedError where
        another one was declared before it."""
        if not isinstance(publish.event.payload, AuthorityDeclared):
            return
        await self._declared.caught_up()
        declared = self.door.table.declared
        if declared is None or declared.id != publish.event.id:
            problem = "another table was declared meanwhile: read it, then set yours again"
            raise RejectedError(f"{DECLARE}.version", problem)
        await self._region.ready()

    async def _judge(
        self, who: str, action: str, publish: Publish
    ) -> tuple[AccessRequest, AccessVerdict]:
        attempt, verdict = await self._verdict(who, action, publish)
        return attempt, self.door.counted(attempt, verdict)

    async def _verdict(
        self, who: str, action: str, publish: Publish
    ) -> tuple[AccessRequest, AccessVerdict]:
        is_table = isinstance(publish.event.payload, AuthorityDeclared)
        if not is_table:
            await self._region.ready()
        attempt, verdict = self._judging.judge(who, action, publish)
        if not is_table and (not verdict.is_allowed or needs_newest(attempt)):
            await self._region.caught_up(attempt.about)
            attempt, verdict = self._judging.judge(who, action, publish)
        return attempt, verdict


def _is_recorded(publish: Publish) -> bool:
    return publish.topic in _RECORDED or rule_of(descriptor_of(publish.event.payload)).is_order

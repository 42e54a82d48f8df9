"""A topic of decisions that is a list, and the client that reads it."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

from coplace.v1.placement_pb2 import PlacementDecided

from shared.catalogue.event import Event, Publish
from shared.catalogue.record import NewRecord, TopicPartition
from shared.clients import decisions
from tests.support import messaging as messages
from tests.support.messaging import CODEC

T_US: Final = 1_767_225_600_000_000


class PlayedConsumer:
    """Reads one list of records, and then waits, or fails as set; a position is behind
    what it gave out."""

    last: "PlayedConsumer"
    records: Sequence[Any] = ()
    failure: Exception | None = None

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.read = self.committed = 0
        self.assigned: Sequence[Any] = ()
        self.is_stopped = False
        PlayedConsumer.last = self

    def assign(self, partitions: Sequence[Any]) -> None:
        self.assigned = partitions

    async def start(self) -> None:
        self.is_stopped = False

    async def stop(self) -> None:
        self.is_stopped = True

    async def getmany(self, *, timeout_ms: int, max_records: int) -> dict[Any, list[Any]]:
        if self.read == len(self.records):
            await asyncio.sleep(0 if self.failure else timeout_ms)
            if self.failure:
                raise self.failure
        found: defaultdict[Any, list[Any]] = defaultdict(list)
        for record in self.records[self.read : self.read + max_records]:
            found[0].append(record)
            self.read += 1
        return found

    async def commit(self) -> None:
        self.committed = self.read


def new_record(decision: PlacementDecided) -> NewRecord:
    """A decision as placement writes it."""
    event = Event(decision.job_id, "placement", T_US, decision.job_id, decision)
    return CODEC.encode(Publish(decisions.DECISIONS, event))


def record(decision: PlacementDecided) -> Any:
    """A decision as the topic has it."""
    return _known(new_record(decision))


def barrier() -> Any:
    """The end of a round, as a record."""
    return _known(messages.barrier(TopicPartition(decisions.DECISIONS, 0), 1))


def _known(new: NewRecord) -> Any:
    return SimpleNamespace(value=new.value, headers=new.headers, timestamp=T_US // 1000)

"""Whether a reader has all that was committed when it asked for the ends of its partitions.

Its position is compared with the end. But a position does not reach every end: behind the last
record there may be offsets that hold nothing any more, such as the marker of a transaction that the
broker has removed, and a log may be shorter than it was. So where nothing comes the ends are asked
for anew. An answer comes on the connection on which records come, behind what was asked for before:
a position that stays where it is over several answers has nothing before its end.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final, Generic, Self, TypeVar

import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition

# A broker answers at once that there is something and, by the client's default, within half a
# second that there is nothing. Such an answer costs both sides 1 ms.
_QUIET_S: Final = 1.0
_QUIET_POLLS: Final = 3
# So many in a row: a broker that slows a reader down answers with nothing too.
_ANSWERS: Final = 3

# A partition, as the client in use names it.
Place = TypeVar("Place")

log = structlog.get_logger(__name__)


class Ends(Generic[Place]):
    """The ends that a reader has not reached yet."""

    def __init__(self, ends: Mapping[Place, int]) -> None:
        self._ahead = dict(ends)
        self._positions: Mapping[Place, int] = {}
        self._answers = 0
        self._rest()

    @property
    def partitions(self) -> Sequence[Place]:
        """Return the partitions whose ends are not reached."""
        return list(self._ahead)

    def are_ahead(self, positions: Mapping[Place, int]) -> bool:
        """Return whether there is more to read, given the reader's positions after a poll."""
        self._ahead = {each: end for each, end in self._ahead.items() if positions[each] < end}
        if positions != self._positions:
            self._positions, self._answers = dict(positions), 0
            self._rest()
        self._polls += 1
        return bool(self._ahead)

    @property
    def are_doubtful(self) -> bool:
        """Return whether nothing has come for so long that the ends are to be asked for anew."""
        quiet_s = time.monotonic() - self._quiet_since_s
        return bool(self._ahead) and quiet_s >= _QUIET_S and self._polls >= _QUIET_POLLS

    def check(self, now: Mapping[Place, int]) -> None:
        """Compare with the ends as they are now."""
        self._answers += 1
        self._rest()
        self._ahead = {each: min(end, now[each]) for each, end in self._ahead.items()}
        if self._answers < _ANSWERS:
            return
        for each, end in self._ahead.items():
            log.info("nothing before the end", at=str(each), offset=self._positions[each], end=end)
        self._ahead = {}

    def _rest(self) -> None:
        self._quiet_since_s, self._polls = time.monotonic(), 0


class EndsOfConsumer:
    """The same, of a consumer that somebody polls meanwhile."""

    def __init__(self, consumer: AIOKafkaConsumer, ends: Mapping[KafkaPartition, int]) -> None:
        self._consumer = consumer
        self._ends = Ends(ends)

    @classmethod
    async def of(cls, consumer: AIOKafkaConsumer, partitions: Sequence[KafkaPartition]) -> Self:
        """Ask for the ends of what is committed now."""
        return cls(consumer, await consumer.end_offsets(partitions))

    async def are_ahead(self) -> bool:
        """Return whether there is more to read; ask after each poll."""
        positions = {each: await self._consumer.position(each) for each in self._ends.partitions}
        if self._ends.are_ahead(positions) and self._ends.are_doubtful:
            self._ends.check(await self._consumer.end_offsets(self._ends.partitions))
        return bool(self._ends.partitions)

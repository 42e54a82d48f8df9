"""What the contract asks of a log and its workers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.streams.stages.stage import Stage
from tests.support.fragile import fragile
from tests.support.messaging import counting

STAGES = ("counting", "replay")


@dataclass(frozen=True)
class Plan:
    """What a worker runs, and what happens to it the first time that it reaches a point."""

    stage: str = "counting"
    single: bool = False
    point: str = ""
    action: str = "kill"
    bug_at: str = ""
    fragile: bool = False

    def runs(self) -> Stage:
        """The stage that the worker runs."""
        if self.fragile:
            return fragile(self.stage, single=self.single)
        return counting(self.stage, single=self.single, bug_at=self.bug_at)


class Worker(Protocol):
    """One member of the group."""

    def stop(self) -> None:
        """End it in good order."""

    def resume(self) -> None:
        """Let it go on after it stalled."""

    @property
    def ended(self) -> bool:
        """Whether it has ended, by whatever means."""

    @property
    def last_words(self) -> str:
        """What it said when it ended by itself."""


class Producer(Protocol):
    """The owner of a transactional id. What a newer owner forbids raises an error that says
    "Fenced"."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, records: Iterable[NewRecord]) -> None:
        """Send records and wait until the log has them."""

    def send_positions(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Move a group's positions with the transaction."""

    def commit(self) -> None:
        """Commit it."""

    def abort(self) -> None:
        """Abort it."""


class Backend(Protocol):
    """A log and its workers."""

    def append(self, records: Iterable[NewRecord]) -> None:
        """Append as a client outside would."""

    def read(self, partition: TopicPartition) -> list[Record]:
        """All committed records of a partition."""

    def producer(self, transactional_id: str) -> Producer:
        """Take a transactional id over."""

    def position(self, group: str, partition: TopicPartition) -> int:
        """Where a group reads on."""

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        """Forget the oldest records of a partition."""

    def recreate(self, topic: str) -> None:
        """Delete a topic and create an empty one of its name."""

    def grow(self, topic: str, kafka_partitions: int) -> None:
        """Give a topic more Kafka partitions."""

    def set_position(self, group: str, partition: TopicPartition, offset: int) -> None:
        """Move a group's position as an operator does with Kafka's tools."""

    def forget_positions(self, group: str) -> None:
        """Let a group's positions expire."""

    def inconsistencies(self) -> list[str]:
        """What keeps the units of the counting stage from starting."""

    def start(self, plan: Plan) -> Worker:
        """Start a worker."""

    def until(self, condition: Callable[[], bool]) -> None:
        """Let the workers work until something holds. Raises TimeoutError."""

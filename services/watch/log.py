"""What the service needs of the log of decisions: Kafka's, or that of a test."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from services.watch.model import LoggedDecision
from services.watch.users import JobUsers


class OffsetGoneError(Exception):
    """The log does not hold what is to be read any more."""


class DecisionBatch(NamedTuple):
    """Decisions that came, those of a Kafka partition in order, and up to where all was read."""

    decisions: Sequence[LoggedDecision]
    offsets: Sequence[int]


class LogBounds(NamedTuple):
    """From where on the log holds records, by Kafka partition, and up to where."""

    begins: Sequence[int]
    ends: Sequence[int]


class DecisionReader(Protocol):
    """Reads committed decisions of all Kafka partitions from some offsets on."""

    async def read(self) -> DecisionBatch:
        """Return what has come; wait a moment where nothing has. Raises OffsetGoneError."""
        ...

    async def has_reached(self, offsets: Sequence[int]) -> bool:
        """Return whether there is nothing more to read before these."""
        ...


class DecisionLog(Protocol):
    """Where decisions lie."""

    async def bounds(self) -> LogBounds:
        """Return what the log holds now."""
        ...

    def reader(self, offsets: Sequence[int]) -> AbstractAsyncContextManager[DecisionReader]:
        """Open a reader from these offsets on."""
        ...


class UsersOfJobs(Protocol):
    """Whose jobs are."""

    @property
    def users(self) -> JobUsers:
        """Return the users that are known."""

    @property
    def is_read(self) -> bool:
        """Return whether they are followed and known up to now."""

    async def know(self, job_ids: Sequence[str]) -> None:
        """Return when the users of these jobs are known, as far as they ever will be. Raises
        TimeoutError where that takes too long."""
        ...

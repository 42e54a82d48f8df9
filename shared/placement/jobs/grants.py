"""Starts that must not take place: what their holders are told, and what is remembered of it.

A start is a grant, which ends by the word of the resource manager that holds it (started, declined,
finished, requeued) or by an operator's seizure, never by silence.
"""

from dataclasses import dataclass
from typing import Final

from coplace.v1.jobs_pb2 import JobDeclined, JobFinished, JobStarted

from coplace_client.errors import RejectedError

# Starts of a job that were taken from their holders and not answered; the oldest make room.
MOST_SEIZED: Final = 15


@dataclass(frozen=True, slots=True)
class Void:
    """A start that must not take place, or a run that must end, and why."""

    attempt: int
    grant: int
    cluster: str
    reason: str

    @property
    def start(self) -> tuple[int, int, str]:
        """Which start it is."""
        return self.attempt, self.grant, self.cluster

    def is_of(self, message: JobStarted | JobFinished | JobDeclined) -> bool:
        """True when the message speaks for this start; one that tells no grant does by attempt."""
        return message.attempt == self.attempt and message.grant in (0, self.grant)


def lower_grant(message: JobStarted, newest: int) -> Void | None:
    """The start that a message claims under a grant that was given back and replaced since."""
    if not 0 < message.grant < newest:
        return None
    reason = f"grant {message.grant} was given back: the newest is {newest}"
    return Void(message.attempt, message.grant, message.cluster, reason)


def require_given(grant: int, newest: int) -> None:
    """Raises RejectedError for a grant that a job never had: the newest of its own is this."""
    if grant > newest:
        problem = f"{grant} was never given, the newest of the job is {newest}"
        raise RejectedError("grant", problem)

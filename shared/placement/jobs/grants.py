"""Starts that must not take place: what their holders are told, and what is remembered of it.

A start is a grant, which ends by the word of the resource manager that holds it (started, declined,
finished, requeued) or by an operator's seizure, never by silence.
"""

from dataclasses import dataclass

from coplace.v1.jobs_pb2 import JobDeclined, JobFinished, JobStarted


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

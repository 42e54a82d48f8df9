"""Starts that must not take place: why, and what is remembered of them.

A start is a grant. It ends when the resource manager that holds it says so (started, declined,
finished, requeued) or by an operator's seizure, never by silence.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from coplace.v1.jobs_pb2 import JobDeclined, JobFinished, JobRequeued, JobStarted

from coplace_client.errors import RejectedError
from shared.placement.state.closure import Closure

# Starts of a job that were taken from their holders and not answered; the oldest are dropped.
MOST_SEIZED: Final = 15


class WithdrawalKind(StrEnum):
    """Why a start must not take place."""

    CANCELLED = "cancelled"
    HELD = "held"
    REQUEUE_ASKED = "requeue asked"
    CLUSTER_CLOSED = "cluster closed"
    NODES_TAKEN = "nodes taken"
    NOT_CONFIRMED = "not confirmed"
    RUNS_UNDECLARED = "runs on an undeclared cluster"
    RUNS_ELSEWHERE = "runs elsewhere"
    GRANTED_ELSEWHERE = "granted elsewhere"
    REPLACED = "replaced"
    DECLINED = "declined"
    REQUEUED = "requeued"
    SEIZED = "seized"
    PUBLISHED = "published before"


@dataclass(frozen=True, slots=True)
class WithdrawalReason:
    """Why a start must not take place: about which cluster or job, in which words of somebody, of
    which number, and when."""

    kind: WithdrawalKind
    about: str = ""
    text: str = ""
    number: int = 0
    newest: int = 0
    at_s: float = 0.0
    closure: Closure | None = None


@dataclass(frozen=True, slots=True)
class VoidStart:
    """A start that must not take place, or a run that must end, and why."""

    attempt: int
    grant: int
    cluster: str
    reason: WithdrawalReason

    @property
    def start(self) -> tuple[int, int, str]:
        """Return the attempt, the grant and the cluster of the start."""
        return self.attempt, self.grant, self.cluster

    def is_of(self, message: JobStarted | JobFinished | JobDeclined) -> bool:
        """Return whether the message is on this start; by attempt alone where it names no grant."""
        return message.attempt == self.attempt and message.grant in (0, self.grant)


def lower_grant(message: JobStarted, newest: int) -> VoidStart | None:
    """Return the start that a message claims under a grant that was replaced since, or None."""
    if not 0 < message.grant < newest:
        return None
    reason = WithdrawalReason(WithdrawalKind.REPLACED, number=message.grant, newest=newest)
    return VoidStart(message.attempt, message.grant, message.cluster, reason)


def declined_grant(message: JobStarted) -> VoidStart:
    """Return the start that a message claims under a grant that was declined before."""
    reason = WithdrawalReason(WithdrawalKind.DECLINED, number=message.grant)
    return VoidStart(message.attempt, message.grant, message.cluster, reason)


def require_holder(message: JobFinished | JobRequeued, cluster: str, grant: int) -> None:
    """Raise RejectedError for the end of a run on `cluster` under `grant`, by whom it is not held:
    another cluster's resource manager, or one that had another grant. A requeue names its cluster
    or its grant where the run has one."""
    is_named = message.cluster or message.grant or not grant
    if message.cluster not in (cluster, "") or not is_named:
        problem = f"{message.cluster[:80]!r} does not hold the run, {cluster!r} does"
        raise RejectedError("cluster", problem)
    if message.grant not in (0, grant):
        raise RejectedError("grant", f"{message.grant} is not that of the run, which is {grant}")


def require_given(grant: int, newest: int) -> None:
    """Raise RejectedError for a grant higher than `newest`, which the job never had."""
    if grant > newest:
        problem = f"{grant} was never given, the newest of the job is {newest}"
        raise RejectedError("grant", problem)

"""Starts that must not take place: their resource managers are asked to decline."""

from collections.abc import Iterator, Mapping
from typing import Final

from shared.placement.decide.outcomes import Cancelled, Withdrawn
from shared.placement.state.grants import VoidStart, WithdrawalKind, WithdrawalReason
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord
from shared.placement.state.job_table import JobTable
from shared.placement.state.model_store import ModelStore

# A start may still be confirmed at the very end of its time; round times are microseconds.
_LATER_S: Final = 1e-3


class Withdrawals:
    """Withdraws starts that must not take place any more, each once: the topic keeps the question.

    Until the resource manager answers, or an operator seizes the job, its nodes stay reserved and
    it starts nowhere else: the start may have taken place and its report be held back. A
    `start_timeout_s` of 0 waits for ever.
    """

    def __init__(self, job_table: JobTable, models: ModelStore) -> None:
        self._job_table = job_table
        self._models = models

    @property
    def _timeout_s(self) -> float:
        return self._models.rules.now.start_timeout_s

    def due_s(self) -> Iterator[float]:
        """Yield when starts are withdrawn that nobody has confirmed."""
        if self._timeout_s:
            for job, placed in self._job_table.allocations.granted():
                if not job.grants.withdrawn:
                    yield placed.since_s + self._timeout_s + _LATER_S

    def of_round(self, now_s: float) -> Iterator[Withdrawn | Cancelled]:
        """Withdraw what must not start, at the end of a round."""
        for job in self._job_table.with_void_starts():
            yield from (Withdrawn(job, void, is_void=True) for void in job.grants.void)
            job.grants.void = ()
            self._job_table.save(job)
        granted = self._job_table.allocations.granted()
        intruders = dict(self._job_table.allocations.intruders(granted))
        for job, placed in granted:
            if not job.grants.withdrawn:
                yield from self._withdraw(job, placed, intruders, now_s)

    def _withdraw(
        self, job: JobRecord, placed: JobAllocation, intruders: Mapping[str, str], now_s: float
    ) -> Iterator[Withdrawn | Cancelled]:
        why = self._why(job, placed, intruders)
        job.grants.missed = not why and 0 < self._timeout_s < now_s - placed.since_s
        job.grants.withdrawn = why = self._not_confirmed(placed) if job.grants.missed else why
        if why is None:
            return
        self._job_table.save(job)
        if job.requests.cancelled is None:
            start = VoidStart(job.job.attempt, placed.grant, placed.cluster, why)
            yield Withdrawn(job, start, is_void=False)
        else:
            yield Cancelled(job)

    def _why(
        self, job: JobRecord, placed: JobAllocation, intruders: Mapping[str, str]
    ) -> WithdrawalReason | None:
        """Return why a start must not take place any more; None while it may."""
        requests, closed = job.requests, self._models.closed
        if requests.cancelled is not None:
            return WithdrawalReason(WithdrawalKind.CANCELLED)
        if job.run.runs_on:
            return WithdrawalReason(WithdrawalKind.RUNS_UNDECLARED, job.run.runs_on)
        if requests.requeue is not None:
            return WithdrawalReason(WithdrawalKind.REQUEUE_ASKED, text=requests.requeue)
        if requests.held is not None:
            return WithdrawalReason(WithdrawalKind.HELD, text=requests.held)
        if placed.cluster in closed:
            kind, closure = WithdrawalKind.CLUSTER_CLOSED, closed[placed.cluster]
            return WithdrawalReason(kind, placed.cluster, closure=closure)
        if job.job.job_id in intruders:
            return WithdrawalReason(WithdrawalKind.NODES_TAKEN, intruders[job.job.job_id])
        return None

    def _not_confirmed(self, placed: JobAllocation) -> WithdrawalReason:
        until_s = placed.since_s + self._timeout_s
        return WithdrawalReason(WithdrawalKind.NOT_CONFIRMED, placed.cluster, at_s=until_s)

"""Starts that were decided and did not come true."""

from collections.abc import Iterator, Mapping

from services.placement.explanation import when
from services.placement.jobs import Placed, Tracked
from services.placement.knowledge import Knowledge
from services.placement.ledger import Ledger
from services.placement.outcomes import Decisions
from shared.domain.job import JobState
from shared.messaging.event import Publish


class Withdrawals:
    """Takes back starts that no resource manager confirmed, and frees their nodes.

    Until then the nodes stay reserved, so that a resource manager that is slow to answer does not
    get job after job. A `timeout_s` of 0 waits for ever.
    """

    def __init__(self, ledger: Ledger, knowledge: Knowledge, timeout_s: float) -> None:
        self._ledger = ledger
        self._knowledge = knowledge
        self._timeout_s = timeout_s

    def of_round(self, decisions: Decisions) -> Iterator[Publish]:
        """What is taken back at the end of a round."""
        for job in self._ledger.void_starts():
            where = job.placed.cluster if job.placed else "another cluster"
            reason = f"the job runs on {where}, as the resource manager there says"
            yield decisions.withdrawn(job, job.void, reason)
            job.void = ""
            self._ledger.save(job)
        unconfirmed = self._ledger.holdings.unconfirmed()
        intruders = dict(self._ledger.holdings.intruders(unconfirmed))
        for job, placed in unconfirmed:
            yield from self._take_back(job, placed, intruders, decisions)

    def _take_back(
        self, job: Tracked, placed: Placed, intruders: Mapping[str, str], decisions: Decisions
    ) -> Iterator[Publish]:
        if job.state is JobState.CANCELLED:
            yield decisions.cancelled(job)
            self._ledger.withdraw(job)
            return
        overdue = 0 < self._timeout_s < decisions.ended.now_s - placed.since_s
        reason = self._why(job, placed, intruders) or (self._missed(placed) if overdue else "")
        if reason:
            yield decisions.withdrawn(job, placed.cluster, reason)
            job.missed_starts += overdue
            self._ledger.withdraw(job)

    def _why(self, job: Tracked, placed: Placed, intruders: Mapping[str, str]) -> str:
        """Why a start cannot take place any more; empty while it can."""
        if job.held is not None:
            return f"held: {job.held}" if job.held else "held"
        if placed.cluster in self._knowledge.lost:
            return f"{placed.cluster}: {self._knowledge.lost[placed.cluster]}"
        if job.job.job_id in intruders:
            return f"{intruders[job.job.job_id]} runs on its nodes, as the resource manager says"
        return ""

    def _missed(self, placed: Placed) -> str:
        until = when(placed.since_s + self._timeout_s)
        return f"the resource manager of {placed.cluster} did not confirm the start by {until}"

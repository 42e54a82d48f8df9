"""Starts that were decided and did not come true: their resource managers are asked to decline."""

from collections.abc import Iterator, Mapping
from typing import Final

from shared.catalogue.event import Publish
from shared.domain.times import in_utc
from shared.placement.jobs.table import JobTable
from shared.placement.jobs.tracked import Placed, Tracked
from shared.placement.model_store import ModelStore
from shared.placement.outcomes import Decisions
from shared.placement.reasons.pending_reasons import said_to_run

# A start may still be confirmed at the very end of its time; round times are microseconds.
_LATER_S: Final = 1e-3


class Withdrawals:
    """Asks starts back that shall not take place any more, each once: the topic keeps the question.

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
        """When starts are asked back that nobody has confirmed."""
        if self._timeout_s:
            for job, placed in self._job_table.holdings.granted():
                if not job.asked_back:
                    yield placed.since_s + self._timeout_s + _LATER_S

    def of_round(self, decisions: Decisions) -> Iterator[Publish]:
        """What is asked back at the end of a round."""
        for job in self._job_table.with_void_starts():
            yield from (decisions.void(job, void) for void in job.void)
            job.void = ()
            self._job_table.save(job)
        granted = self._job_table.holdings.granted()
        intruders = dict(self._job_table.holdings.intruders(granted))
        for job, placed in granted:
            if not job.asked_back:
                yield from self._ask_back(job, placed, intruders, decisions)

    def _ask_back(
        self, job: Tracked, placed: Placed, intruders: Mapping[str, str], decisions: Decisions
    ) -> Iterator[Publish]:
        why = self._why(job, placed, intruders)
        job.missed = not why and 0 < self._timeout_s < decisions.ended.now_s - placed.since_s
        job.asked_back = self._not_confirmed(placed) if job.missed else why
        if not job.asked_back:
            return
        self._job_table.save(job)
        if job.cancelled is None:
            yield decisions.withdrawn(job, placed)
        else:
            yield decisions.cancelled(job)

    def _why(self, job: Tracked, placed: Placed, intruders: Mapping[str, str]) -> str:
        """Why a start shall not take place any more; empty while it may."""
        if job.cancelled is not None:
            return "cancelled"
        if job.runs_on:
            return said_to_run(job)
        if job.requeue is not None:
            return job.requeue
        if job.held is not None:
            return f"held: {job.held}" if job.held else "held"
        if placed.cluster in self._models.closed:
            return f"{placed.cluster}: {self._models.closed[placed.cluster]}"
        if job.job.job_id in intruders:
            return f"{intruders[job.job.job_id]} runs on its nodes, as the resource manager says"
        return ""

    def _not_confirmed(self, placed: Placed) -> str:
        until = in_utc(placed.since_s + self._timeout_s)
        return f"the resource manager of {placed.cluster} did not confirm the start by {until}"

"""EASY with watts that keeps the joint quantile as placement does it, for jobs of an instance.

A pass keeps the margin of what runs when it begins. A start that would need more than is left does
not take place, nor do those behind it; as much more as it needs is kept, and another pass follows:
see `shared/placement/budgets/joint_margin.py`, whose margins these are.
"""

from collections.abc import Sequence
from math import inf
from typing import Final, NamedTuple

from lab.simulation.eurora import easy_of, entries_of, table_of
from lab.workloads.eurora import EuroraJob, EuroraMachine
from shared.models.spread import moments
from shared.placement.budgets.joint_margin import (
    Error,
    kept_for_sent_back,
    margin_mw,
    variance_beside,
)
from shared.scheduling.backfill import Backfill
from shared.scheduling.dispatch import Dispatcher, Served
from shared.scheduling.power import Cap, PowerBudget, milliwatts

# The job that has the margin.
_MARGIN: Final = -1


class Doubt(NamedTuple):
    """What is accepted, and what is known of errors: of each job the deviation of its logarithm and
    whose it is; how much alike one user's jobs err."""

    risk: float
    deviations: Sequence[float]
    users: Sequence[str]
    correlation: float


class JointEasy(Dispatcher):
    """The jobs arrive in their order, under a cap without steps."""

    def __init__(
        self, machine: EuroraMachine, jobs: Sequence[EuroraJob], cap: Cap, doubt: Doubt
    ) -> None:
        table = table_of(machine)
        self._scheduler = easy_of(table, jobs, [PowerBudget(cap)])
        arrivals = (((0, entry),) for entry in entries_of(table, jobs))
        self._easy = Backfill([self._scheduler], arrivals)
        self._cap_mw, self._doubt = cap.limit_mw(0.0), doubt
        self._draws_mw = [milliwatts(job.power_w) for job in jobs]
        spreads = [moments(deviation) for deviation in doubt.deviations]
        self._errors = [
            Error((mean - 1) * draw_mw, variance * draw_mw * draw_mw, user)
            for draw_mw, (mean, variance), user in zip(
                self._draws_mw, spreads, doubt.users, strict=True
            )
        ]
        self._running: set[int] = set()
        self._scheduler.budgets.hold(_MARGIN, inf, 0)

    @property
    def waits(self) -> bool:
        """Return whether anything waits."""
        return self._easy.waits

    def arrive(self) -> None:
        """Put the next job into the queue."""
        self._easy.arrive()

    def end(self, number: int, holder: int) -> None:
        """Free what the job has."""
        self._easy.end(number, holder)
        self._running.discard(holder)

    def wake_s(self, now_s: float) -> float:
        """Return never: the cap has no steps."""
        return self._easy.wake_s(now_s)

    def decide(self, now_s: float) -> list[Served]:
        """Return what starts now."""
        started, more = list[Served](), Error(0.0, 0.0)
        while True:
            self._keep(more)
            served = self._easy.decide(now_s)
            allowed = self._allowed(served)
            started += served[:allowed]
            if allowed == len(served):
                return started
            needed = self._needed(served[allowed][1].arrival)
            more = kept_for_sent_back(more, needed, is_first=not allowed)
            for _, entry, _, _ in served[allowed:]:
                self._scheduler.release(entry.arrival)
                self._scheduler.add(entry)

    def _keep(self, more: Error) -> None:
        """The margin of what runs, and for who was sent back."""
        errors = [*self._errors_of(self._running), more]
        margin = margin_mw(self._doubt.risk, errors, self._doubt.correlation)
        self._scheduler.budgets.release(_MARGIN)
        self._scheduler.budgets.hold(_MARGIN, inf, margin)

    def _allowed(self, served: Sequence[Served]) -> int:
        """How many of them fit with their margins beside what runs; they run from now on."""
        for count, (_, entry, _, _) in enumerate(served):
            together = self._running | {entry.arrival}
            errors = self._errors_of(together)
            needed_mw = sum(self._draws_mw[number] for number in together)
            needed_mw += margin_mw(self._doubt.risk, errors, self._doubt.correlation)
            if needed_mw > self._cap_mw:
                return count
            self._running = together
        return len(served)

    def _needed(self, arrival: int) -> Error:
        """What a job adds to the margin of what runs."""
        held, error = self._errors_of(self._running), self._errors[arrival]
        return Error(error.mean_mw, variance_beside(held, error, self._doubt.correlation))

    def _errors_of(self, running: set[int]) -> list[Error]:
        return [self._errors[number] for number in sorted(running)]

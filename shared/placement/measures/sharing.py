"""Watts that what runs gives up, so that a job starts which waits for them alone.

Dynamic power sharing (Ellsworth and others, "Dynamic power sharing for higher job throughput",
2015) by P-states: after a pass the first jobs are looked at that lack nothing but watts. Of the
jobs that run under the caps that refuse one of them the P-states are lowered that lose least a
watt, if they lose less than its start gains (docs/adr/0079). What it lacks is asked for and kept
for it; it starts in the pass that finds the watts there.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from shared.placement.budgets.layer import BudgetLayer
from shared.placement.budgets.reserved import KeptWatts, freed_holder, holder_id
from shared.placement.decide.outcomes import ActionAsked
from shared.placement.decide.refusals import Refusals
from shared.placement.measures.asking import Asking
from shared.placement.measures.givers import Givers, JobOnNodes
from shared.placement.measures.lowering import Lowered, Lowering, Wanting
from shared.placement.state.actions import Action, ActionCause, CapShortage, CauseKind
from shared.placement.state.job_record import JobRecord
from shared.placement.state.layer import StateLayer
from shared.scheduling.power import Shortage
from shared.scheduling.wait_queue import Entry
from shared.streams.state.state import SingleRow, State

# Entries of each queue that are looked at in a round: Slurm's default of bf_max_job_test.
_MOST_LOOKED_AT: Final = 100


class FreedWatts(NamedTuple):
    """Watts that are freed for a job that waits, for so long, and what was asked for that: arrival
    and number of each action."""

    cluster: str
    arrival: int
    draw_mw: int
    limit_s: float
    asked_s: float
    asked: tuple[tuple[int, int], ...]


class Sharing:
    """Frees watts for one job on a cluster at a time, and for the same one again only after a
    while: a job that does not start although the watts came lets them go."""

    def __init__(
        self,
        kept: State,
        state: StateLayer,
        budgets: BudgetLayer,
        asking: Asking,
    ) -> None:
        self._job_table, self._models = state.jobs, state.models
        self._margin, self._reserved = budgets.margin, budgets.reserved
        self._asking = asking
        self._row = _row_in(kept)
        self._freed = self._row.get() or ()

    def due_s(self) -> Iterator[float]:
        """Yield when watts are kept no longer, and when the same job may get some again."""
        for each in self._freed:
            times_s = each.asked_s + self._timeout_s, each.asked_s + self._asking.retry_s
            yield from (at_s for at_s in times_s if at_s > self._asking.now_s)

    def begin(self) -> None:
        """Begin the end of a round: keep watts for the jobs for which answers are out."""
        self._set([each for each in self._freed if self._stands(each)])

    def free_watts(self, refusals: Refusals) -> Iterator[ActionAsked]:
        """Ask for the watts of jobs that lack nothing else, in the order of the queue."""
        if not (self._models.rules.now.cap_sharing and self._models.caps):
            return
        plan, lowering = refusals.plan, None
        for entry, cluster in self._waiting(refusals):
            if self._is_served(entry, cluster):
                continue
            if lowering is None:
                givers = Givers(self._asking, self._job_table.allocations.all())
                lowering = Lowering(self._asking, self._models, self._reserved, givers, plan)
            wanting = self._wanting(refusals, entry, cluster)
            lowered = lowering.of(wanting)
            if lowered:
                yield from self._ask(wanting, lowered)
                self._reserved.keep({n: [*s.budgets] for n, s in plan.schedulers.items()})
                lowering = None

    def in_order(self, slowed: Sequence[JobOnNodes]) -> list[JobOnNodes]:
        """Sort the jobs that may be clocked up by what a watt takes off their bounded slowdowns."""
        givers = Givers(self._asking, slowed)
        return sorted(slowed, key=givers.worth_per_mw, reverse=True)

    # For whom -------------------------------------------------------------------------------------

    def _waiting(self, refusals: Refusals) -> list[tuple[Entry, str]]:
        """Return the first entries of each queue that lack watts alone."""
        return sorted(
            (entry, name)
            for name, scheduler in refusals.plan.schedulers.items()
            if scheduler.budgets.any
            for entry in islice(scheduler.queue, _MOST_LOOKED_AT)
            if not self._is_served(entry, name) and refusals.lacks_watts_alone(name, entry)
        )

    def _is_served(self, entry: Entry, cluster: str) -> bool:
        """Return whether watts were freed for a job of late, or are being freed on a cluster."""
        return any(
            each.arrival == entry.arrival or (each.cluster == cluster and self._is_awaited(each))
            for each in self._freed
        )

    def _wanting(self, refusals: Refusals, entry: Entry, cluster: str) -> Wanting:
        job = self._job_table.of_arrival(entry.arrival)
        draw_mw = entry.draw_mw + self._margin.more_mw(job, cluster, entry)
        shortages = refusals.shortages(cluster, entry)
        return Wanting(entry, cluster, job, draw_mw, shortages)

    # What is asked --------------------------------------------------------------------------------

    def _ask(self, wanting: Wanting, lowered: Lowered) -> Iterator[ActionAsked]:
        """Ask each job to run at its P-state, and keep what is freed by that."""
        entry, cluster = wanting.entry, wanting.cluster
        caps = tuple(CapShortage.of(s, self._holder(s)) for s in wanting.shortages)
        cause = ActionCause(CauseKind.WATTS_FOR_JOB, wanting.job.job.job_id, caps)
        asked: list[tuple[int, int]] = []
        for arrival, pace in lowered.items():
            job = self._job_table.of_arrival(arrival)
            assert job.run.allocation is not None
            action = self._asking.set_pace(job, pace, cause)
            asked.append((arrival, action.number))
            yield self._asking.ask(job, job.run.allocation, action)
        now_s = self._asking.now_s
        freed = FreedWatts(
            cluster, entry.arrival, wanting.draw_mw, entry.limit_s, now_s, tuple(asked)
        )
        self._set([*self._freed, freed])

    def _holder(self, shortage: Shortage) -> str:
        """Return the id of the job that a budget reserves watts for; empty for nobody's."""
        return holder_id(shortage.reserved_for, self._job_table.by_arrival)

    # What is kept ---------------------------------------------------------------------------------

    @property
    def _timeout_s(self) -> float:
        return self._models.rules.now.action_timeout_s

    def _set(self, freed: list[FreedWatts]) -> None:
        if tuple(freed) != self._freed:
            self._freed = tuple(freed)
            self._row.put(self._freed)
        awaited = [each for each in freed if self._is_awaited(each)]
        self._reserved.of_sharing = [self._kept(each) for each in awaited]

    def _kept(self, freed: FreedWatts) -> KeptWatts:
        coming = tuple(self._coming(freed))
        holder = freed_holder(freed.arrival)
        return KeptWatts(freed.cluster, holder, freed.asked_s, freed.limit_s, freed.draw_mw, coming)

    def _coming(self, freed: FreedWatts) -> Iterator[tuple[str, int]]:
        """Yield what is to be given up yet, by cluster."""
        for job, action in self._unanswered(freed):
            assert job.run.allocation is not None
            yield job.run.allocation.cluster, job.run.drawn_mw - job.run.drawn_after_mw(action)

    def _unanswered(self, freed: FreedWatts) -> Iterator[tuple[JobRecord, Action]]:
        for arrival, number in freed.asked:
            job = self._job_table.at_arrival(arrival)
            if job is not None and job.run.allocation is not None:
                yield from ((job, action) for action in job.run.actions if action.number == number)

    def _is_awaited(self, freed: FreedWatts) -> bool:
        """Return whether an answer is out, and may come in time."""
        is_in_time = self._asking.now_s < freed.asked_s + self._timeout_s
        return is_in_time and any(True for _ in self._unanswered(freed))

    def _stands(self, freed: FreedWatts) -> bool:
        """Return False for watts freed long ago, or for which nothing is to be kept any more."""
        job = self._job_table.at_arrival(freed.arrival)
        return (
            self._models.rules.now.cap_sharing
            and self._asking.now_s < freed.asked_s + self._asking.retry_s
            and freed.cluster in self._models.clusters
            and job is not None
            and job.waits
        )


def repair(state: State, now_us: int) -> None:
    """Drop watts that a wrong clock freed in the future: they would be kept for long."""
    row = _row_in(state)
    freed = row.get() or ()
    past = tuple([each for each in freed if each.asked_s * 1e6 <= now_us])
    if len(past) < len(freed):
        row.put(past)


def _row_in(state: State) -> SingleRow[tuple[FreedWatts, ...]]:
    return state.value("freed-watts", tuple[FreedWatts, ...])

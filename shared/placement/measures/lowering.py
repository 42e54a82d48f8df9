"""The jobs that are to draw less, so that a job that waits for watts alone may start."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Final, NamedTuple

from shared.placement.budgets.cap_budgets import CapBudgets
from shared.placement.budgets.reserved import ByCluster, Reserved, distinct
from shared.placement.measures.asking import Asking
from shared.placement.measures.clock_steps import ClockStep, Pace, fewest_losses, worth
from shared.placement.measures.givers import Givers
from shared.placement.state.caps import Covered
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord
from shared.placement.state.model_store import ModelStore
from shared.scheduling.backfill import Dispatch, units_of
from shared.scheduling.eligibility import node_set
from shared.scheduling.power import Budgets, Cap, Scope, Shortage
from shared.scheduling.power_sharing import ADMITTED_TIMES
from shared.scheduling.wait_queue import Entry
from shared.scheduling.windows import NO_WINDOWS, Windows

# How often more is asked for, where caps ahead or reservations want it.
_MOST_TRIES: Final = 4
# The P-state at which each job is to run, by arrival.
Lowered = Mapping[int, Pace]


class Wanting(NamedTuple):
    """An entry that lacks watts alone, what it will draw, and what refuses it."""

    entry: Entry
    cluster: str
    job: JobRecord
    draw_mw: int
    shortages: Sequence[Shortage]

    def missing_mw(self, shortages: Sequence[Shortage]) -> int:
        """Return what the entry lacks under the shortage that has least."""
        return self.draw_mw - min(shortage.available_mw for shortage in shortages)

    def shortages_under(self, budgets: ByCluster, now_s: float) -> Sequence[Shortage]:
        """Return what refuses the entry under these budgets."""
        entry, under = self.entry, Budgets(budgets[self.cluster])
        return under.shortages(self.draw_mw, now_s + entry.limit_s, entry.arrival)


class Lowering:
    """Chooses lower P-states as of the end of a pass, and of what was asked since."""

    def __init__(
        self, asking: Asking, models: ModelStore, reserved: Reserved, givers: Givers, plan: Dispatch
    ) -> None:
        self._now_s, self._models, self._reserved = asking.now_s, models, reserved
        self._givers, self._caps = givers, CapBudgets(models)
        self._promised = plan.all_reservations()
        self._windows = {
            name: units.windows
            for name, each in plan.schedulers.items()
            if (units := units_of(each)) is not None
        }
        self._allowed: dict[tuple[Covered, int, int | None], list[ClockStep]] = {}
        self._least_mw = self._least(reserved.committed(self._now_s))

    def of(self, wanting: Wanting) -> Lowered | None:
        """Return the P-states that lose least a watt and are enough; None where none are, where
        they lose as much as the start gains, or where a reserved start would be delayed."""
        if not self._is_admitted(wanting):
            return None
        shortages, missing_mw = wanting.shortages, 0
        for _ in range(_MOST_TRIES):
            missing_mw += wanting.missing_mw(shortages)
            lowered = self._lowered(wanting, missing_mw, max(each.at_s for each in shortages))
            if lowered is None:
                return None
            budgets = self._committed(lowered)
            shortages = wanting.shortages_under(budgets, self._now_s)
            if not shortages:
                return lowered if self._delays_nobody(wanting, budgets) else None
        return None

    def _lowered(self, wanting: Wanting, missing_mw: int, at_s: float) -> Lowered | None:
        """Return the paces that give what is missing at a time, and lose less than the start
        gains."""
        limit_s = wanting.entry.limit_s
        steps = self._there_at(self._steps(wanting), at_s)
        taken = fewest_losses(steps, missing_mw, worth(limit_s, limit_s))
        return None if taken is None else {s.arrival: s.to for s in sorted(taken, key=_by_job)}

    def _is_admitted(self, wanting: Wanting) -> bool:
        """Return whether all would draw three times each cap at most, if all ran at the P-state
        that they want: Borghesi and others (2018), section 5.2.2."""
        on = self._models.clusters[wanting.cluster]
        return all(
            self._givers.full_mw(self._clusters(covered)) + wanting.draw_mw
            <= ADMITTED_TIMES * self._to_draw_mw(covered, declared.cap)
            for covered, declared in self._models.caps.items()
            if covered.covers(on)
        )

    def _to_draw_mw(self, covered: Covered, cap: Cap) -> int:
        """Return what a cap allows beyond idle."""
        return self._caps.allowed_mw(cap, self._now_s) - self._models.idle_mw(covered)

    def _clusters(self, covered: Covered) -> Collection[str]:
        return [name for name, each in self._models.clusters.items() if covered.covers(each)]

    def _steps(self, wanting: Wanting) -> list[ClockStep]:
        """Return the steps of all jobs under the innermost cap that refuses an entry. No job draws
        less for one of a lower priority, stays on nodes that are reserved for another, or runs past
        its deadline or into nodes that are kept for others; nor do licences stay in use that may be
        reserved."""
        own, priority = wanting.entry.arrival, wanting.job.job.priority
        every = chain.from_iterable(self._promised.values())
        promised = any(each.arrival == own for each in every)
        covered = _innermost(wanting.shortages)
        key = covered, priority, own if promised else None
        if key not in self._allowed:
            steps = self._givers.steps(self._clusters(covered))
            self._allowed[key] = [step for step in steps if self._is_allowed(step, own, priority)]
        return self._allowed[key]

    def _is_allowed(self, step: ClockStep, own: int, priority: int) -> bool:
        job, placed = self._givers.by_arrival[step.arrival]
        if job.job.priority > priority:
            return False
        if job.job.deadline_s and self._releases_s(step.arrival, step.to) > job.job.deadline_s:
            return False
        windows = self._windows.get(placed.cluster, NO_WINDOWS)
        if windows.any and self._runs_into(windows, step, job, placed):
            return False
        there = self._promised.get(placed.cluster, ())
        if job.job.licences:  # which jobs on other clusters may wait for
            there = [*chain.from_iterable(self._promised.values())]
        promised = [p for p in there if p.arrival != own]
        later_s = self._releases_s(step.arrival, step.to) if promised else 0.0
        return not any(job.run.releases_s <= p.start_s < later_s for p in promised)

    def _runs_into(
        self, windows: Windows, step: ClockStep, job: JobRecord, placed: JobAllocation
    ) -> bool:
        """Return whether a job that is clocked down would be on nodes that are kept for others, on
        which it is not as it runs."""
        name, later_s = job.job.reservation, self._releases_s(step.arrival, step.to)
        now = windows.shut(name, self._now_s, job.run.releases_s)
        then = windows.shut(name, self._now_s, later_s)
        return bool(node_set(placed.nodes) & then & ~now)

    def _there_at(self, steps: Sequence[ClockStep], at_s: float) -> Sequence[ClockStep]:
        """Return the steps without those of jobs that have released by then what they draw; an
        overdue job draws on."""
        if at_s <= self._now_s:
            return steps
        runs = self._givers.by_arrival
        releases_s = {arrival: runs[arrival][0].run.releases_s for _, arrival, *_ in steps}
        return [s for s in steps if not self._now_s < releases_s[s.arrival] <= at_s]

    def _committed(self, lowered: Lowered) -> ByCluster:
        """Return what is committed if these draw less, for as much longer."""
        budgets = self._reserved.committed(self._now_s)
        for arrival, pace in lowered.items():
            under = Budgets(budgets[self._givers.by_arrival[arrival][1].cluster])
            under.release(arrival)
            under.hold(arrival, self._releases_s(arrival, pace), pace.draw_mw)
        return budgets

    def _releases_s(self, arrival: int, pace: Pace) -> float:
        job, placed = self._givers.by_arrival[arrival]
        later_s = placed.stretched_s(pace.limit_s, self._now_s)
        return max(job.run.releases_s, placed.ends_s + later_s)

    def _delays_nobody(self, wanting: Wanting, budgets: ByCluster) -> bool:
        """Return whether all that is reserved for others has its watts as before if the entry
        starts."""
        under, own = Budgets(budgets[wanting.cluster]), wanting.entry.arrival
        under.give_up(own)
        under.hold(own, self._now_s + wanting.entry.limit_s, wanting.draw_mw)
        found = zip(self._least_mw, self._least(budgets), strict=True)
        return all(after_mw >= min(before_mw, 0) for before_mw, after_mw in found)

    def _least(self, budgets: ByCluster) -> list[int]:
        return [each.least_headroom_mw(self._now_s, inf) for each in distinct(budgets)]


def _innermost(shortages: Sequence[Shortage]) -> Covered:
    """Return the cap that refuses an entry which all others that do are on too: of its cluster, of
    its site, or of the region."""
    scopes = [*Scope]
    cap = min((each.cap for each in shortages), key=lambda cap: scopes.index(cap.scope))
    return Covered(cap.scope, cap.name)


def _by_job(step: ClockStep) -> tuple[int, int]:
    return step.arrival, step.number

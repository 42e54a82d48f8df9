"""What is kept free under caps since predictions err: the quantile of what all jobs that run draw
together, beyond the sum of what is predicted of each.

Errors have normal logarithms, and what many jobs draw together is about normal: it exceeds the sum
of their means and z_q times the root of its variance with the probability 1 - q. Errors of jobs of
different users count as independent, those of one user's jobs as much alike as operators say. A job
whose prediction carries no deviation counts as predicted, unless operators say how much runs of one
application differ.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import ceil, fsum, sqrt
from typing import Final, NamedTuple

from shared.models.spread import moments
from shared.numerics.normal import quantile
from shared.placement.budgets.cap_budgets import CapBudgets
from shared.placement.budgets.meters import Meters
from shared.placement.state.candidate import Candidate
from shared.placement.state.caps import Covered
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord
from shared.placement.state.job_table import JobTable
from shared.placement.state.model_store import ModelStore
from shared.scheduling.backfill import Start
from shared.scheduling.power import Cap, PowerBudget, milliwatts
from shared.scheduling.problem import unit_millicores
from shared.scheduling.wait_queue import Entry

# From here on nobody asks for less than the sum of the predictions.
AS_PREDICTED: Final = 0.5
# Sums of variances in another order must not send anybody back twice.
_SURELY_MORE: Final = 1.000001


class Error(NamedTuple):
    """By how much more a job draws than is predicted: the mean, mW, and the variance, mW^2. `user`
    is whose job it is; empty for nobody's, which is like no other."""

    mean_mw: float
    variance: float
    user: str = ""


_NO_ERROR: Final = Error(0.0, 0.0)


class JobDraw(NamedTuple):
    """What a job is predicted to draw beyond idle until `release_s` at the latest."""

    release_s: float
    draw_mw: int
    error: Error


def margin_mw(risk: float, errors: Sequence[Error], correlation: float = 0.0) -> int:
    """Return by how much jobs together exceed the sum of their predictions with the probability
    `risk` at most; `correlation` is that of errors of one user's jobs."""
    mean_mw = sum([each.mean_mw for each in errors])
    return ceil(mean_mw + quantile(1 - risk) * sqrt(variance_of(errors, correlation)))


def variance_of(errors: Sequence[Error], correlation: float) -> float:
    """Return the variance of the sum of errors, mW^2: each user's jobs have (1 - c) V + c S^2, of
    the sum V of their variances and the sum S of their deviations."""
    alone = sum([each.variance for each in errors])
    if not correlation:
        return alone
    of_users = defaultdict[str, list[float]](list)
    for each in errors:
        if each.user:
            of_users[each.user].append(each.variance)
    return alone + correlation * fsum(map(_more_if_alike, of_users.values()))


def _more_if_alike(variances: Sequence[float]) -> float:
    """Return what errors add together where they are wholly alike; not below 0 for a single one."""
    deviation = fsum(map(sqrt, variances))
    return max(0.0, deviation * deviation - fsum(variances))


def variance_beside(held: Sequence[Error], error: Error, correlation: float) -> float:
    """Return by how much the variance of those held grows with one more: by more than its own where
    there are some of its user."""
    if not correlation:
        return error.variance
    return variance_of([*held, error], correlation) - variance_of(held, correlation)


def kept_for_sent_back(before: Error, needed: Error, *, is_first: bool) -> Error:
    """Return what the next pass keeps for a job that was sent back for want of a margin.

    It needs so much more of the margin, of which `before` was kept in this pass. Twice as much is
    kept where that was enough and the job was the first that would have started, so that passes
    end.
    """
    more = Error(
        max(before.mean_mw, _SURELY_MORE * needed.mean_mw + 1),
        max(before.variance, _SURELY_MORE * needed.variance),
    )
    return Error(2 * more.mean_mw, 2 * more.variance) if is_first and more == before else more


class JointMargin:
    """Reads what jobs hold.

    A pass knows one margin a cap: that of what runs when it begins. A start that would need more
    than is left does not take place; the margin counts it, and another pass follows.
    """

    def __init__(self, job_table: JobTable, models: ModelStore, meters: Meters) -> None:
        self._job_table, self._models, self._meters = job_table, models, meters
        self._caps = CapBudgets(models)
        self._more: dict[Covered, Error] = {}
        self._drawn: dict[Covered, dict[int, JobDraw]] = {}
        # Whether no start of the pass was looked at.
        self._is_untouched = True

    def begin_round(self) -> None:
        """Begin a round: nobody was sent back yet for want of a margin."""
        self._more = {}

    @property
    def is_wanted(self) -> bool:
        """Return whether more may count than is predicted, and under any cap: since deviations do,
        or nodes that nobody meters."""
        return bool(self._models.caps) and (self._counts_errors or self._meters.any_silent)

    @property
    def _counts_errors(self) -> bool:
        return self._models.rules.now.cap_risk < AS_PREDICTED

    def budgets(self, now_s: float) -> dict[str, list[PowerBudget]]:
        """Return the budgets that each cluster is under, with nothing committed but margins."""
        self._is_untouched = True
        if self.is_wanted:
            self._drawn = {covered: self._held(covered) for covered in self._models.caps}
        return self._caps.budgets(now_s, self._kept_mw)

    def of_what_runs(self, covered: Covered) -> int:
        """Return the margin of jobs that have nodes there, mW beside their predicted draw."""
        if not self.is_wanted:
            return 0
        return self._margin_mw([each.error for each in self._held(covered).values()])

    def more_mw(self, job: JobRecord, cluster: str, entry: Entry) -> int:
        """Return by how much the most of the margins there grows with a job that may start."""
        if not self.is_wanted:
            return 0
        on = self._models.clusters[cluster]
        placed = JobAllocation(cluster, tuple(range(entry.nodes)), entry.limit_s, 0.0)
        placed.power_sd = job.evaluated.candidate(cluster).power_sd
        more = self._error_of(job, placed, entry.draw_mw)
        held = [
            [each.error for each in self._held(covered).values()]
            for covered in self._models.caps
            if covered.covers(on)
        ]
        grown = (self._margin_mw([*errors, more]) - self._margin_mw(errors) for errors in held)
        return max(grown, default=0)

    def _kept_mw(self, covered: Covered) -> int:
        """Return the margin of what runs when a pass begins, and of jobs that were sent back."""
        if not self.is_wanted:
            return 0
        errors = [each.error for each in self._drawn[covered].values()]
        more = self._more.get(covered, _NO_ERROR)
        return self._margin_mw([*errors, more])

    def allows_start(self, job: JobRecord, start: Start, mode: Candidate, now_s: float) -> bool:
        """Return whether all caps hold with their margins beside what runs. Where one does not, the
        next pass keeps as much more there as the job needs."""
        if not self.is_wanted:
            return True
        entry, on = start.entry, self._job_table.allocated(start)
        placed = JobAllocation(
            start.cluster, on[0], entry.limit_s, now_s + entry.limit_s, 0, entry.draw_mw, on[1]
        )
        placed.power_sd = mode.power_sd
        placed.silent_units, placed.nameplate_mw = self._meters.counted(job, placed)
        error = self._error_of(job, placed, entry.draw_mw)
        drawn = JobDraw(placed.ends_s, placed.counted_mw, error)
        beyond_mw = drawn.draw_mw - entry.draw_mw
        short = self._takes(job, start.cluster, drawn, now_s)
        for covered in short:
            held = [each.error for each in self._drawn[covered].values()]
            variance = variance_beside(held, error, self._models.rules.now.cap_user_correlation)
            self._more[covered] = kept_for_sent_back(
                self._more.get(covered, _NO_ERROR),
                Error(error.mean_mw + beyond_mw, variance),
                is_first=self._is_untouched,
            )
        self._is_untouched = False
        return not short

    def allows(
        self, job: JobRecord, placed: JobAllocation, draw_mw: int, until_s: float, now_s: float
    ) -> bool:
        """Return whether all caps hold if a job that runs draws so much from now until then."""
        if not self.is_wanted:
            return True
        error = self._error_of(job, placed, draw_mw)
        return not self._takes(job, placed.cluster, JobDraw(until_s, draw_mw, error), now_s)

    def _takes(self, job: JobRecord, cluster: str, drawn: JobDraw, now_s: float) -> list[Covered]:
        """Return the caps that do not hold if a job draws so much; where all do, it draws it."""
        on = self._models.clusters[cluster]
        caps = [(each, of.cap) for each, of in self._models.caps.items() if each.covers(on)]
        short = [each for each, cap in caps if not self._has(each, cap, job, drawn, now_s)]
        for covered, _ in caps if not short else ():
            self._drawn[covered][job.arrival] = drawn
        return short

    def _has(
        self, covered: Covered, cap: Cap, job: JobRecord, drawn: JobDraw, now_s: float
    ) -> bool:
        """Return whether a cap holds until a job's end, at each step, beside jobs that may draw
        then."""
        others = [d for arrival, d in self._drawn[covered].items() if arrival != job.arrival]
        within = [step_s for step_s, _ in cap.steps if now_s < step_s < drawn.release_s]
        for at_s in [now_s, *within]:
            there = [d for d in others if d.release_s > at_s or d.release_s <= now_s]
            together = [*there, drawn]
            needed_mw = self._models.idle_mw(covered) + sum([d.draw_mw for d in together])
            needed_mw += self._margin_mw([d.error for d in together])
            if needed_mw > self._caps.allowed_mw(cap, at_s):
                return False
        return True

    def _margin_mw(self, errors: Sequence[Error]) -> int:
        """Return the margin of jobs together, by the rules of now."""
        rules = self._models.rules.now
        return margin_mw(rules.cap_risk, errors, rules.cap_user_correlation)

    def _held(self, covered: Covered) -> dict[int, JobDraw]:
        """Return what all jobs that have nodes there draw, by arrival."""
        found: dict[int, JobDraw] = {}
        for name, occupancy in self._job_table.allocations.occupancy.items():
            for held in occupancy.held if covered.covers(self._models.clusters[name]) else ():
                job = self._job_table.of_arrival(held.holder)
                assert job.run.allocation is not None
                error = self._error_of(job, job.run.allocation, held.draw_mw)
                found[held.holder] = JobDraw(held.release_s, held.draw_mw, error)
        return found

    def _error_of(self, job: JobRecord, placed: JobAllocation, draw_mw: int) -> Error:
        """Return the error on the nodes whose meters are read. Deviations are of what nodes draw
        with what they draw idle; a job that draws nothing does not err."""
        units = sum(placed.units) or len(placed.nodes)
        metered = units - placed.silent_units
        sd = self._deviation(placed)
        if not draw_mw or not metered or not sd or not self._counts_errors:
            return _NO_ERROR
        on = self._models.clusters[placed.cluster]
        nodes = metered * unit_millicores(job.job, on) / on.millicores_per_node
        predicted_mw = min(draw_mw, placed.draw_mw or 0) if placed.silent_units else draw_mw
        whole_mw = predicted_mw * metered / units + nodes * milliwatts(on.idle_power_w)
        mean, variance = moments(sd)
        return Error((mean - 1) * whole_mw, variance * whole_mw * whole_mw, job.job.user)

    def _deviation(self, placed: JobAllocation) -> float:
        """Return the deviation of a prediction, and of runs of one application from each other, of
        which predictions by a signature say nothing; they count as independent."""
        predicted, of_runs = placed.power_sd or 0.0, self._models.rules.now.cap_power_sd
        return sqrt(predicted * predicted + of_runs * of_runs)

"""Backfill by predicted run times on each cluster, from round to round."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import inf
from typing import Final, NamedTuple

from shared.domain.queue_discipline import QueueDiscipline
from shared.domain.runtimes import Runtimes
from shared.placement.decide.looks import has_shared, why_under_easy
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord
from shared.placement.state.job_table import JobTable
from shared.placement.state.policy_in_force import PolicyInForce
from shared.scheduling.backfill import Dispatch, Start
from shared.scheduling.load import Load
from shared.scheduling.power import PowerBudget
from shared.scheduling.runtimes import Passed, PredictedScheduler
from shared.scheduling.user_runs import AS_REQUESTED, ExpectedRun, PassedJob
from shared.scheduling.wait_queue import WaitQueue
from shared.streams.state.state import State

# On a cluster; of more, those that started first count no more.
_MOST_PASSED: Final = 10_000


class KeptPassed(NamedTuple):
    """What a job took that passed, on which cluster, and for how long it was predicted to run."""

    cluster: str
    arrival: int
    passed: PassedJob
    predicted_s: float


class FirstReservation(NamedTuple):
    """The time by which a job that was the first to wait was first to begin."""

    arrival: int
    start_s: float


class JobRuns:
    """The run history of the jobs of placement. Their ends are noted as events."""

    def __init__(self, jobs: JobTable) -> None:
        self._jobs = jobs

    def submit_s(self, arrival: int) -> float:
        """Return when a job was submitted; never, for that of a question."""
        job = self._jobs.at_arrival(arrival)
        return inf if job is None else job.job.submit_s

    def expected(self, arrival: int) -> ExpectedRun:
        """Return what is expected of a job since it was submitted."""
        job = self._jobs.at_arrival(arrival)
        return AS_REQUESTED if job is None else job.expected_run

    def ended(self, _holder: int) -> None:
        """Learn nothing from a forecast."""


class Passing:
    """Keeps what was promised to jobs that wait, and what passed them by its prediction: no rebuild
    finds that out. All passes of a round begin with the same promises."""

    def __init__(self, state: State, rules: PolicyInForce, jobs: JobTable) -> None:
        self._rules, self._history = rules, JobRuns(jobs)
        self._promised = state.table("backfill-promises", tuple[FirstReservation, ...])
        self._rows = state.table("backfill-passed", KeptPassed)
        found: dict[str, dict[int, PassedJob]] = defaultdict(dict)
        for row in self._rows.values():
            found[row.cluster][row.arrival] = row.passed
        self._passed = {name: Passed(jobs_of) for name, jobs_of in found.items()}

    @property
    def is_chosen(self) -> bool:
        """Return whether the policy is to backfill by predictions."""
        now = self._rules.now
        is_easy = now.discipline is QueueDiscipline.EASY
        return is_easy and now.runtimes is Runtimes.PREDICTED

    def is_done_under(self, budgets: Iterable[PowerBudget]) -> bool:
        """Return whether a cluster of whole nodes under these budgets is to do so."""
        return self.is_chosen and not has_shared(budgets)

    def scheduler(
        self, cluster: str, load: Load, queue: WaitQueue, number: int, under: Sequence[PowerBudget]
    ) -> PredictedScheduler:
        """Return the scheduler of a pass; what it starts counts from `take` on."""
        passed = self._passed.get(cluster)
        return PredictedScheduler(
            load,
            queue,
            self._history,
            number,
            under,
            self._rules.now.passing_share,
            Passed(passed.jobs if passed else None),
            dict(self._promised.get(cluster) or ()),
        )

    def take(self, placed: JobAllocation, arrival: int, now_s: float, predicted_s: float) -> None:
        """Count a job that starts on whole nodes, and passed by its prediction."""
        passed = self._passed.setdefault(placed.cluster, Passed())
        taken = passed.take(arrival, now_s, len(placed.nodes), placed.limit_s)
        self._rows.put(str(arrival), KeptPassed(placed.cluster, arrival, taken, predicted_s))
        if len(passed.jobs) > _MOST_PASSED:
            self.drop(passed.oldest)

    def correct(self, arrival: int, run_s: float) -> None:
        """Count what a job really took, if it passed."""
        if kept := self._rows.get(str(arrival)):
            taken = self._passed[kept.cluster].correct(arrival, run_s)
            if taken is not None:
                self._rows.put(str(arrival), kept._replace(passed=taken))

    def drop(self, arrival: int) -> None:
        """Count a job no more."""
        if kept := self._rows.drop(str(arrival)):
            self._passed[kept.cluster].drop(arrival)

    def predicted_s(self, job: JobRecord) -> float:
        """Return for how long a job was predicted to run that passed, while it counts; 0 for one
        that did not."""
        kept = self._rows.get(str(job.arrival))
        return kept.predicted_s if kept else 0.0

    def note(self, plan: Dispatch) -> None:
        """Keep what the last pass of a round promised; nothing of clusters where nothing waits, or
        that do not backfill by predictions by now."""
        for name in {*self._promised.rows, *self._passed, *plan.schedulers}:
            scheduler = plan.schedulers.get(name)
            promised: tuple[FirstReservation, ...] = ()
            if isinstance(scheduler, PredictedScheduler):
                of_queue = sorted(scheduler.promised_s.items())
                promised = tuple(
                    [FirstReservation(*one) for one in of_queue if one[0] in scheduler.queue]
                )
            if promised and promised != self._promised.get(name):
                self._promised.put(name, promised)
            if not promised:
                self._promised.drop(name)
            if not (isinstance(scheduler, PredictedScheduler) and len(scheduler.queue)):
                self._forget_passed(name)

    def under_easy(self, plan: Dispatch) -> dict[str, str]:
        """Return the clusters that went by requests in a pass though the policy is to predict, and
        why, in words."""
        return {
            name: why_under_easy(scheduler)
            for name, scheduler in plan.schedulers.items()
            if self.is_chosen and not isinstance(scheduler, PredictedScheduler)
        }

    def _forget_passed(self, cluster: str) -> None:
        passed = self._passed.pop(cluster, None)
        for arrival in [*passed.jobs] if passed else ():
            self._rows.drop(str(arrival))


def predicted_s(plan: Dispatch, start: Start) -> float | None:
    """Return for how long a job is predicted to run which passed by that; None where it did not."""
    scheduler = plan.schedulers[start.cluster]
    if not isinstance(scheduler, PredictedScheduler):
        return None
    return scheduler.passed_s.get(start.entry.arrival)

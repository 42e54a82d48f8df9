"""Look-ahead as a dispatcher: a policy that plans anew at each instant."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from shared.scheduling.dispatch import Dispatcher, Served
from shared.scheduling.engine import Engine
from shared.scheduling.lookahead import LookAhead, Waiting
from shared.scheduling.plan_evaluation import ExecutionMode, PlannedStart, Running, Situation
from shared.scheduling.pool import Over, Pool, budgets_of
from shared.scheduling.power import PowerBudget
from shared.scheduling.run_share import RunShare, expected_end_s
from shared.scheduling.workload import Floats, Ints, Schedule

# How long a job, by arrival number, really runs on a cluster in a mode.
RunTime = Callable[[int, int, ExecutionMode], float]


@dataclass(frozen=True, slots=True, eq=False)
class LookAheadSchedule:
    """A schedule, and each job's P-state, power and limit as they were chosen, (jobs,)."""

    schedule: Schedule
    pstate: Ints
    power_w: Floats
    limit_s: Floats


@dataclass(frozen=True, slots=True)
class _Begun:
    start: PlannedStart
    run_s: float


def replan(
    pools: Sequence[Pool],
    jobs: Sequence[Waiting],
    run_s: RunTime,
    policy: LookAhead,
    over: Sequence[Over] = (),
) -> LookAheadSchedule:
    """Return the schedule of jobs, by submission and arrival number from 0, under look-ahead and
    the caps `over` several pools.

    The run time of a job is learned when it ends: expectations are the mean share of their limits
    that jobs ran for so far.
    """
    dispatcher = PlanDispatcher(pools, jobs, run_s, policy, over)
    submit_s = [job.submit_s for job in jobs]
    engine = Engine(dispatcher, submit_s, dispatcher.runs_s, submit_s[0])
    while len(dispatcher.begun) < len(jobs):
        engine.step()
    return dispatcher.result()


class PlanDispatcher(Dispatcher):
    """Asks look-ahead at each instant at which anything waits: see Dispatcher."""

    def __init__(
        self,
        pools: Sequence[Pool],
        jobs: Sequence[Waiting],
        run_s: RunTime,
        policy: LookAhead,
        over: Sequence[Over] = (),
    ) -> None:
        self._pools, self._jobs, self._run_s, self._policy = pools, jobs, run_s, policy
        self._over = over
        self._waiting: dict[int, Waiting] = {}
        self._running: dict[int, PlannedStart] = {}
        self.begun: dict[int, _Begun] = {}
        self._arrived, self._share = 0, RunShare()

    @property
    def waits(self) -> bool:
        """Return True while anything waits."""
        return bool(self._waiting)

    def arrive(self) -> None:
        """Put the next job among the waiting ones."""
        self._waiting[self._arrived] = self._jobs[self._arrived]
        self._arrived += 1

    def end(self, number: int, holder: int) -> None:
        """Remove a job that has ended, and learn for how long it ran."""
        begun, start = self.begun[holder], self._running.pop(holder)
        self._share.add(min(begun.run_s / start.planned.mode.limit_s, 1.0))

    def decide(self, now_s: float) -> list[Served]:
        """Return the starts of look-ahead."""
        if not self._waiting:
            return []
        starts = self._policy.decide(self._situation(now_s), self._waiting, self._share.mean)
        return [self._begin(start) for start in starts]

    def wake_s(self, now_s: float) -> float:
        """Return when energy gets cheaper somewhere."""
        tariffs = self._policy.objective.tariffs
        return min(tariff.next_drop_s(now_s) for tariff in tariffs) if self._waiting else inf

    def runs_s(self, served: Served) -> float:
        """Return how long a job that was started really runs."""
        _, entry, _, _ = served
        return self.begun[entry.arrival].run_s

    def result(self) -> LookAheadSchedule:
        """Return all decisions."""
        begun = [self.begun[job] for job in range(len(self._jobs))]
        start_s = np.array([each.start.start_s for each in begun])
        schedule = Schedule(
            cluster=np.array([each.start.planned.cluster for each in begun]),
            start_s=start_s,
            end_s=start_s + np.array([each.run_s for each in begun]),
            backfilled=np.array([each.start.backfilled for each in begun]),
        )
        modes = [each.start.planned.mode for each in begun]
        return LookAheadSchedule(
            schedule,
            pstate=np.array([mode.pstate for mode in modes]),
            power_w=np.array([mode.power_w for mode in modes]),
            limit_s=np.array([mode.limit_s for mode in modes]),
        )

    def _begin(self, start: PlannedStart) -> Served:
        planned = start.planned
        job = planned.arrival
        del self._waiting[job]
        self._running[job] = start
        self.begun[job] = _Begun(start, self._run_s(job, planned.cluster, planned.mode))
        return planned.cluster, planned.entry, None, start.backfilled

    def _situation(self, now_s: float) -> Situation:
        running = {job: self._held(start, now_s) for job, start in self._running.items()}
        return Situation(now_s, self._pools, running, self._budgets)

    def _budgets(self) -> list[list[PowerBudget]]:
        return budgets_of(self._pools, self._over)

    def _held(self, start: PlannedStart, now_s: float) -> Running:
        planned, start_s, _ = start
        limit_s, share = planned.mode.limit_s, self._share.mean
        return Running(
            planned.cluster,
            planned.units,
            planned.mode.draw_w,
            release_s=start_s + limit_s,
            expected_s=expected_end_s(share, now_s, start_s, limit_s),
        )

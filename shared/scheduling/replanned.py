"""Discrete events for a policy that plans anew at each instant: see timeline.play for others.

At each instant all completions come first, then all submissions, then one decision.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Final

import numpy as np

from shared.scheduling.lookahead import LookAhead, Waiting
from shared.scheduling.plan_evaluation import ExecutionMode, Room, Running, Situation, Start
from shared.scheduling.workload import Floats, Ints, Schedule

# Jobs whose share of their limits counts as 1 before any has ended.
_UNKNOWN_JOBS: Final = 5
# A job that outlives what was expected of it is expected to take half as long again.
_AGAIN: Final = 1.5
_SOON_S: Final = 1.0

# How long a job, by arrival number, really runs on a cluster with an mode.
RunTime = Callable[[int, int, ExecutionMode], float]


@dataclass(frozen=True, slots=True, eq=False)
class Replanned:
    """A schedule, and each job's P-state, power and limit as they were chosen, (jobs,)."""

    schedule: Schedule
    pstate: Ints
    power_w: Floats
    limit_s: Floats


@dataclass(frozen=True, slots=True)
class _Begun:
    start: Start
    run_s: float


def replan(
    rooms: Sequence[Room], jobs: Sequence[Waiting], run_s: RunTime, policy: LookAhead
) -> Replanned:
    """The schedule of jobs, by submission and arrival number from 0, under look-ahead.

    What a job really runs for is learned when it ends: expectations are the mean share of their
    limits that jobs ran for so far.
    """
    timeline = _Timeline(rooms, jobs, run_s, policy)
    while len(timeline.begun) < len(jobs):
        timeline.step()
    return timeline.result()


class _Timeline:
    def __init__(
        self, rooms: Sequence[Room], jobs: Sequence[Waiting], run_s: RunTime, policy: LookAhead
    ) -> None:
        self._rooms, self._jobs, self._run_s, self._policy = rooms, jobs, run_s, policy
        self._waiting: dict[int, Waiting] = {}
        self._running: list[tuple[float, int]] = []
        self.begun: dict[int, _Begun] = {}
        self._arrived, self._ended, self._shares = 0, _UNKNOWN_JOBS, float(_UNKNOWN_JOBS)
        self._wake_s = inf

    def step(self) -> None:
        """Everything that happens at the next instant."""
        now_s = min(self._next_submit_s(), self._next_end_s(), self._wake_s)
        while self._next_end_s() == now_s:
            self._end(heappop(self._running)[1])
        while self._next_submit_s() == now_s:
            self._waiting[self._arrived] = self._jobs[self._arrived]
            self._arrived += 1
        if self._waiting:
            for start in self._policy.decide(self._situation(now_s), self._waiting, self._share):
                self._begin(start)
        drops_s = (t.next_drop_s(now_s) for t in self._policy.objective.tariffs)
        self._wake_s = min(drops_s) if self._waiting else inf

    def result(self) -> Replanned:
        """What was decided."""
        begun = [self.begun[job] for job in range(len(self._jobs))]
        start_s = np.array([each.start.start_s for each in begun])
        schedule = Schedule(
            cluster=np.array([each.start.planned.cluster for each in begun]),
            start_s=start_s,
            end_s=start_s + np.array([each.run_s for each in begun]),
            backfilled=np.array([each.start.backfilled for each in begun]),
        )
        modes = [each.start.planned.mode for each in begun]
        return Replanned(
            schedule,
            pstate=np.array([mode.pstate for mode in modes]),
            power_w=np.array([mode.power_w for mode in modes]),
            limit_s=np.array([mode.limit_s for mode in modes]),
        )

    def _next_submit_s(self) -> float:
        return self._jobs[self._arrived].submit_s if self._arrived < len(self._jobs) else inf

    def _next_end_s(self) -> float:
        return self._running[0][0] if self._running else inf

    def _begin(self, start: Start) -> None:
        planned = start.planned
        job = planned.arrival
        del self._waiting[job]
        run_s = self._run_s(job, planned.cluster, planned.mode)
        self.begun[job] = _Begun(start, run_s)
        heappush(self._running, (start.start_s + run_s, job))

    def _end(self, job: int) -> None:
        begun = self.begun[job]
        self._ended += 1
        self._shares += min(begun.run_s / begun.start.planned.mode.limit_s, 1.0)

    @property
    def _share(self) -> float:
        return self._shares / self._ended

    def _situation(self, now_s: float) -> Situation:
        running = {job: self._held(self.begun[job].start, now_s) for _, job in self._running}
        return Situation(now_s, self._rooms, running)

    def _held(self, start: Start, now_s: float) -> Running:
        planned, start_s, _ = start
        limit_s, power_w, _ = planned.mode
        expected_s = max(self._share * limit_s, _AGAIN * (now_s - start_s))
        return Running(
            planned.cluster,
            planned.units,
            power_w,
            release_s=start_s + limit_s,
            expected_s=max(start_s + min(expected_s, limit_s), now_s + _SOON_S),
        )

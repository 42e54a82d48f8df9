"""The hybrid: list schedules by several rules, and a search over their orders.

Every order of the jobs is a list schedule. The search starts from the cheapest of three: by
walltime, by draw times walltime over weight, and that of the last plan. It moves one job at a time
to another place, the insertion neighbourhood of permutation scheduling (Taillard, 1990). What a
second of waiting costs a job is what it adds to its bounded slowdown if it runs to its limit,
1 / max(threshold, limit), where DEC weights by queues (equation 2).
"""

from collections.abc import Callable, Sequence
from math import inf, sqrt
from random import Random
from typing import Final

from shared.models.bounded_slowdown import bounded_length_s
from shared.planning.last_order import kept_order
from shared.planning.searches import Searches
from shared.scheduling.list_scheduling import (
    CappedSituation,
    ListSchedule,
    ListSchedules,
    Planned,
    Wanted,
)

# Jobs that all moves of one plan place together: 100 moves of 40 jobs, 10 of 400.
_PLACED: Final = 4_000
_SEED: Final = 1

_Found = tuple[list[int], ListSchedule]


class OrderSearch:
    """Plans by the cheapest order that it finds: see StartPlanner. Same calls, same plans."""

    def __init__(self, searches: Searches) -> None:
        self._searches, self._random = searches, Random(_SEED)
        # Arrival numbers in the order of the last plan.
        self._last: list[int] = []

    def plan(self, at: CappedSituation) -> Sequence[Planned]:
        """Plan the list schedule of the cheapest order."""
        return self.schedule(at).starts

    def schedule(self, at: CappedSituation) -> ListSchedule:
        """Return that schedule with what its waits add to bounded slowdowns."""
        weighed = at._replace(waiting=[_weighed(job) for job in at.waiting])
        schedules, orders = ListSchedules(weighed), self._first_orders(weighed)
        found = [(order, _listed(schedules, order)) for order in orders]
        best = min(found, key=lambda each: each[1].cost)
        order, schedule = self._moved(schedules, best)
        self._searches.plans += 1
        self._searches.improved += schedule.cost < found[0][1].cost
        self._last = [at.waiting[place].arrival for place in order]
        return schedule

    def _first_orders(self, at: CappedSituation) -> list[list[int]]:
        """Return the first orders: by the limit; by limit, weight and draw; as in the last plan,
        new jobs by their limits."""
        by_limit = _sorted(at.waiting, lambda job: job.limit_s)
        return [
            by_limit,
            _sorted(at.waiting, lambda job: job.limit_s * job.draw_mw / job.weight),
            kept_order(at, by_limit, self._last),
        ]

    def _moved(self, schedules: ListSchedules, best: _Found) -> _Found:
        """Return what moves of single jobs make of an order, one after the other."""
        order, schedule = best
        jobs = len(order)
        if schedule.cost in (0.0, inf):
            return best
        for _ in range(_PLACED // jobs):
            moved = order.copy()
            job = moved.pop(self._random.randrange(jobs))
            # More often to the front, where jobs start soon.
            share = self._random.random()
            moved.insert(int(jobs * share * sqrt(share)), job)
            found = schedules.play(moved, below=schedule.cost)
            if found is not None:
                order, schedule = moved, found
        return order, schedule


def _listed(schedules: ListSchedules, order: Sequence[int]) -> ListSchedule:
    found = schedules.play(order)
    assert found is not None
    return found


def _weighed(job: Wanted) -> Wanted:
    return job._replace(weight=1 / bounded_length_s(job.limit_s))


def _sorted(waiting: Sequence[Wanted], key: Callable[[Wanted], float]) -> list[int]:
    return sorted(range(len(waiting)), key=lambda n: (key(waiting[n]), waiting[n].arrival))

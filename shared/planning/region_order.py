"""An order of what waits in a region, by whatever schedules jobs on nodes under one cap: list
scheduling, a search over its orders, or CP-SAT, under the budgets of now.

The nodes of a cluster are one pool, as in the relaxed model of `decomposition.py`. Each job is
where the policy would have it first. Budgets of all clusters are the cap, with what it will be
later; one of a single cluster is a pool beside its nodes, by what it is now; budgets of some
clusters are left to placement, which holds all of them whatever a plan says. Nobody declares how
long jobs expect to wait by their queue, so the walltime is in equation 2: a second of waiting
costs the longest walltime / the job's.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple, Protocol

import numpy as np

from shared.models.bounded_slowdown import THRESHOLD_S, bounded_length_s
from shared.scheduling.list_scheduling import (
    CappedSituation,
    FreeNodes,
    ListSchedule,
    PriorityRule,
    Using,
    Wanted,
)
from shared.scheduling.lookahead import Waiting
from shared.scheduling.plan_evaluation import PlannedEntry, Situation
from shared.scheduling.power import NO_CAP_MW, Cap, PowerBudget, Scope, milliwatts
from shared.scheduling.problem import Allocation
from shared.scheduling.wait_queue import order_of, tier_of

_MOST_RANK: Final = 255


class Scheduling(Protocol):
    """Schedules what waits in a situation; who never fits is left out."""

    def schedule(self, at: CappedSituation) -> ListSchedule: ...


@dataclass(frozen=True, slots=True)
class RegionOrder:
    """Plans for a region by `scheduling`, which gets the rule that its list schedule goes by:
    tier, then walltime. It is made anew for each plan, so that a plan follows from its round."""

    scheduling: Callable[[PriorityRule], Scheduling]

    def plan(self, situation: Situation, waiting: Mapping[int, Waiting]) -> list[PlannedEntry]:
        """Plan the jobs in the order of their starts, on all clusters that the policy has them on;
        empty where everything starts at once. A job that never fits is not in it."""
        jobs = [job for job in waiting.values() if job.usual]
        at, firsts = _situation(situation, jobs)
        ranked = sorted(
            range(len(firsts)),
            key=lambda n: (tier_of(firsts[n].order), firsts[n].mode.limit_s, firsts[n].arrival),
        )
        ranks = [0] * len(firsts)
        for rank, place in enumerate(ranked):
            ranks[place] = rank
        found = self.scheduling(PriorityRule(ranks)).schedule(at)
        if not found.cost:
            return []
        order = [waiting[firsts[place].arrival] for _, place in found.starts]
        return [entry for n, job in enumerate(order) for entry in _entries(job, n)]


class _Budgets(NamedTuple):
    """What may be drawn beyond idle nodes, mW: by all clusters together, with how that changes, and
    by each now."""

    together: Cap
    each_mw: list[int]


def _situation(
    situation: Situation, jobs: Sequence[Waiting]
) -> tuple[CappedSituation, list[PlannedEntry]]:
    """Return the situation as the model takes it, and by place the entry that each job is planned
    by. Clusters are nodes of their own two resources: how many nodes they have, and what these may
    draw."""
    clusters = len(situation.pools)
    budgets = _budgets(situation)
    amounts = np.zeros((2 * clusters, clusters), dtype=np.int64)
    for number, pool in enumerate(situation.pools):
        amounts[2 * number : 2 * number + 2, number] = pool.units, budgets.each_mw[number]
    using, lasting_mw = list[Using](), 0
    for arrival, held in situation.running.items():
        draw_mw = milliwatts(held.power_w)
        amounts[2 * held.cluster : 2 * held.cluster + 2, held.cluster] -= held.units, draw_mw
        if held.release_s == inf:
            lasting_mw += draw_mw
            continue
        needs = _needs(clusters, held.cluster, held.units, draw_mw)
        on = Allocation((held.cluster,), (1,))
        using.append(Using(held.release_s, arrival, needs, on, draw_mw))
    together = PowerBudget(budgets.together, lasting_mw)
    free = FreeNodes.build(amounts)
    most = [int(left) for left in free.totals]
    for each in using:
        most = [left + need for left, need in zip(most, each.needs, strict=True)]
    firsts, waiting = list[PlannedEntry](), list[Wanted]()
    for job in jobs:
        first = min(job.usual)
        draw_mw = milliwatts(first.mode.draw_w)
        needs = _needs(clusters, first.cluster, first.units, draw_mw)
        limit_s = first.mode.limit_s
        ever_s = together.earliest(draw_mw, limit_s, situation.now_s)
        if ever_s < inf and all(map(int.__le__, needs, most)):
            length_s = bounded_length_s(limit_s)
            waiting.append(Wanted(len(firsts), 1, needs, draw_mw, limit_s, length_s))
            firsts.append(first)
    longest_s = max((job.weight for job in waiting), default=THRESHOLD_S)
    weighed = [job._replace(weight=longest_s / job.weight) for job in waiting]
    (_, cap_mw), *steps = [(from_s, left - lasting_mw) for from_s, left in budgets.together.steps]
    return CappedSituation(situation.now_s, cap_mw, free, using, weighed, steps), firsts


def _budgets(situation: Situation) -> _Budgets:
    by_cluster = situation.budgets()
    clusters_of: dict[int, set[int]] = {}
    together, each_mw = list[PowerBudget](), [NO_CAP_MW] * len(by_cluster)
    for number, budgets in enumerate(by_cluster):
        for budget in budgets:
            clusters_of.setdefault(id(budget), set()).add(number)
    for number, budgets in enumerate(by_cluster):
        for budget in budgets:
            covered = len(clusters_of[id(budget)])
            if covered == len(by_cluster):
                together.append(budget)
            elif covered == 1:
                left_mw = budget.cap.limit_mw(situation.now_s) - budget.base_mw
                each_mw[number] = min(each_mw[number], left_mw)
    return _Budgets(_lowest(together, situation.now_s), each_mw)


def _lowest(budgets: Sequence[PowerBudget], now_s: float) -> Cap:
    """Return what the tightest of them leaves beyond idle nodes, from now on."""
    ahead = {from_s for each in budgets for from_s, _ in each.cap.steps_after(now_s)}
    steps = [
        (
            from_s,
            min([each.cap.limit_mw(from_s) - each.base_mw for each in budgets], default=NO_CAP_MW),
        )
        for from_s in [now_s, *sorted(ahead)]
    ]
    return Cap(Scope.REGION, "", tuple(steps))


def _needs(clusters: int, cluster: int, units: int, draw_mw: int) -> tuple[int, ...]:
    needs = [0] * (2 * clusters)
    needs[2 * cluster : 2 * cluster + 2] = units, draw_mw
    return tuple(needs)


def _entries(job: Waiting, place: int) -> Iterator[PlannedEntry]:
    """Yield the entries of the job at a place of the plan, its clusters in the policy's order."""
    for rank, entry in enumerate(sorted(job.usual)):
        order = order_of(tier_of(entry.order), place, min(rank, _MOST_RANK))
        yield entry._replace(order=order)

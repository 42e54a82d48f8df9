"""DEC: starts from a relaxed model of constraint programming, mapped onto nodes.

Borghesi and others, "Scheduling-based power capping in high performance computing systems" (2018),
section 4.3. All nodes are one pool of each resource, and watts are another one; CP-SAT looks for
the starts whose waits cost least (equation 2), from the list schedule on. Then each job is mapped
onto nodes at its start. Where its units do not fit, what ran then is not let run together with it
any more, and the solver is asked again; the order of the starts is also played as a list schedule,
which always can be.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil, floor, inf
from typing import Any, Final, Protocol

from ortools.sat.python import cp_model

from shared.planning.searches import Searches
from shared.scheduling.list_scheduling import (
    CappedSituation,
    ListSchedule,
    Planned,
    Using,
    list_schedule,
)

# Weights become whole numbers: so many parts of one.
_PARTS: Final = 1000
# No start within the limit: it is doubled, up to here unless something else is said.
_LONGEST_LIMIT_S: Final = 60.0
# Jobs that may not all run at the instant at which one of them starts: its place, and theirs; below
# 0 are those that run already, counted from -1.
_Conflict = tuple[int, tuple[int, ...]]


class Order(Protocol):
    """The order of a list schedule: see PriorityRule."""

    def order(self, at: CappedSituation) -> list[int]: ...


class DecompositionPlanner:
    """Plans by the relaxed model, from the list schedule of `rule` on: see StartPlanner.

    The solver has one worker and counts its work, not the time: `limit_s` is in units of that,
    about a second each: a situation gets the same plan on any machine. `rounds` is
    how often it is asked where jobs could not be mapped.
    """

    def __init__(
        self,
        rule: Order,
        searches: Searches,
        limit_s: float = 1.0,
        rounds: int = 3,
        longest_s: float = _LONGEST_LIMIT_S,
    ) -> None:
        self._rule, self._limit_s, self._rounds = rule, limit_s, rounds
        self._longest_s = max(limit_s, longest_s)
        self._searches = searches

    def plan(self, at: CappedSituation) -> Sequence[Planned]:
        """The cheapest that was found, the list schedule included. A job that never fits starts
        never: then the list schedule holds."""
        return self.cheapest(at).starts

    def cheapest(self, at: CappedSituation) -> ListSchedule:
        """It with what its waits cost."""
        self._searches.plans += 1
        listed = list_schedule(at, self._rule.order(at))
        assert listed is not None
        if listed.cost in (0.0, inf):
            return listed
        best, conflicts = listed, list[_Conflict]()
        for _ in range(self._rounds):
            starts_s = self.solved(at, best, conflicts)
            if starts_s is None:
                self._searches.unanswered += 1
                break
            mapped, conflict = _mapped(at, starts_s)
            for found in (mapped, _played(at, starts_s, best.cost)):
                if found is not None and found.cost < best.cost:
                    best = found
            if conflict is None:
                break
            conflicts.append(conflict)
        self._searches.improved += best.cost < listed.cost
        return best

    def solved(
        self, at: CappedSituation, hint: ListSchedule, conflicts: Sequence[_Conflict]
    ) -> list[float] | None:
        """Starts by place; None without an answer at the longest limit."""
        model, starts = _model(at, hint, conflicts)
        limit_s = self._limit_s
        while limit_s <= self._longest_s:
            solver = cp_model.CpSolver()
            solver.parameters.num_workers = 1
            solver.parameters.random_seed = 0
            solver.parameters.max_deterministic_time = limit_s
            status = solver.solve(model)
            if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                return [at.now_s + float(solver.value(start)) for start in starts]
            if status != cp_model.UNKNOWN:
                return None  # the conflicts leave no schedule before the horizon
            limit_s *= 2
        return None


def _model(
    at: CappedSituation, hint: ListSchedule, conflicts: Sequence[_Conflict]
) -> tuple[Any, list[Any]]:
    """The relaxed model of equations 1 and 2, in whole seconds from now, with its starts."""
    model = cp_model.CpModel()
    hinted_s = {place: round(start_s - at.now_s) for start_s, place in hint.starts}
    limits_s = [max(1, ceil(job.limit_s)) for job in at.waiting]
    # Nothing starts later than the list schedule is over.
    horizon_s = max(start_s + limits_s[place] for place, start_s in hinted_s.items())
    starts = [model.new_int_var(0, horizon_s, f"start {n}") for n in range(len(at.waiting))]
    left_s = [max(1, ceil(each.release_s - at.now_s)) for each in at.using]
    intervals = [
        *(model.new_fixed_size_interval_var(0, size_s, "") for size_s in left_s),
        *(
            model.new_fixed_size_interval_var(start, size_s, "")
            for start, size_s in zip(starts, limits_s, strict=True)
        ),
    ]
    (most_mw, draws_mw), *pools = _pools(at)
    lower = _lower(model, at, most_mw, horizon_s + max(limits_s))
    watts = [*draws_mw, *(less_mw for _, less_mw in lower)]
    model.add_cumulative([*intervals, *(interval for interval, _ in lower)], watts, most_mw)
    for capacity, demands in pools:
        model.add_cumulative(intervals, demands, capacity)
    for job, others in conflicts:
        model.add_bool_or([_apart(model, starts, limits_s, left_s, job, o) for o in others])
    for place, start in enumerate(starts):
        model.add_hint(start, hinted_s[place])
    weights = [round(job.weight * _PARTS) for job in at.waiting]
    model.minimize(cp_model.LinearExpr.weighted_sum(starts, weights))
    return model, starts


def _pools(at: CappedSituation) -> list[tuple[int, list[int]]]:
    """The capacity of each pool and what each job demands of it, those that run first: watts, then
    the resources of all nodes."""
    free = at.free.totals
    draws_mw = [each.draw_mw for each in at.using] + [job.draw_mw for job in at.waiting]
    most_mw = max([at.cap_mw, *(cap_mw for _, cap_mw in at.steps)])
    pools = [(min(most_mw, sum(draws_mw)), draws_mw)]
    for resource, left in enumerate(free):
        used = [each.needs[resource] * sum(each.allocation.units) for each in at.using]
        wanted = [job.needs[resource] * job.units for job in at.waiting]
        pools.append((left + sum(used), [*used, *wanted]))
    return pools


def _lower(model: Any, at: CappedSituation, most_mw: int, until_s: int) -> list[tuple[Any, int]]:
    """When the cap is below the most that it is, in whole seconds, rather longer than shorter, and
    by how much; what runs is not held against it."""
    found = []
    for (begin_s, cap_mw), (over_s, _) in pairwise([*_whole_steps(at), (until_s, 0)]):
        end_s = min(over_s, until_s)
        running_mw = sum(each.draw_mw for each in at.using if each.release_s - at.now_s > begin_s)
        less_mw = most_mw - max(cap_mw, running_mw)
        if less_mw > 0 and begin_s < end_s:
            interval = model.new_fixed_size_interval_var(begin_s, end_s - begin_s, "")
            found.append((interval, less_mw))
    return found


def _whole_steps(at: CappedSituation) -> Iterator[tuple[int, int]]:
    """The cap from now on in whole seconds: it falls sooner and rises later."""
    before_mw = at.cap_mw
    yield 0, before_mw
    for from_s, cap_mw in at.steps:
        after_s = from_s - at.now_s
        yield floor(after_s) if cap_mw < before_mw else ceil(after_s), cap_mw
        before_mw = cap_mw


def _apart(
    model: Any,
    starts: Sequence[Any],
    limits_s: Sequence[int],
    left_s: Sequence[int],
    job: int,
    other: int,
) -> Any:
    """A literal: the other one does not run when the job starts."""
    apart = model.new_bool_var("")
    if other < 0:
        model.add(starts[job] >= left_s[-1 - other]).only_enforce_if(apart)
        return apart
    after, before = model.new_bool_var(""), model.new_bool_var("")
    model.add(starts[job] >= starts[other] + limits_s[other]).only_enforce_if(after)
    model.add(starts[other] > starts[job]).only_enforce_if(before)
    model.add_bool_or([after, before]).only_enforce_if(apart)
    return apart


def _mapped(
    at: CappedSituation, starts_s: Sequence[float]
) -> tuple[ListSchedule | None, _Conflict | None]:
    """The starts on nodes, or the first job whose units do not fit beside what runs then."""
    free, starts = at.free.copy(), list[Planned]()
    running: dict[int, Using] = {-1 - n: each for n, each in enumerate(at.using)}
    for place in _in_order(starts_s):
        job, now_s = at.waiting[place], starts_s[place]
        for other in [o for o, each in running.items() if each.release_s <= now_s]:
            ended = running.pop(other)
            free.give(ended.needs, ended.allocation)
        allocation = free.take(job.needs, job.units)
        if allocation is None:
            return None, (place, tuple(running))
        release_s = now_s + job.limit_s
        running[place] = Using(release_s, job.arrival, job.needs, allocation, job.draw_mw)
        starts.append((now_s, place))
    cost = sum(at.waiting[place].weight * (start_s - at.now_s) for start_s, place in starts)
    return ListSchedule(starts, cost), None


def _played(at: CappedSituation, starts_s: Sequence[float], below: float) -> ListSchedule | None:
    """The order of the starts as a list schedule."""
    return list_schedule(at, _in_order(starts_s), below)


def _in_order(starts_s: Sequence[float]) -> list[int]:
    return sorted(range(len(starts_s)), key=lambda place: (starts_s[place], place))

"""DEC: starts from a relaxed model of constraint programming, mapped onto nodes.

Borghesi and others, "Scheduling-based power capping in high performance computing systems" (2018),
section 4.3. All nodes are one pool of each resource, and watts are another one; CP-SAT looks for
the starts whose waits cost least (equation 2), from the list schedule on, or from the order of the
last plan where that is cheaper: the next search goes on with the result of the last. Then each job
is mapped onto nodes at its start. Where its units do not fit, what ran then is not let run together
with it any more, and the solver is asked again; the order of the starts is also played as a list
schedule, which always can be."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil, floor, inf
from typing import Any, Final, Protocol

from ortools.sat.python import cp_model

from shared.planning.last_order import kept_order
from shared.planning.searches import Searches, tried_limits_s
from shared.scheduling.list_scheduling import (
    CappedSituation,
    ListSchedule,
    Planned,
    Using,
    list_schedule,
)

# Weights become whole numbers: so many parts of one.
_PARTS: Final = 1000
# Deterministic time of the solver that takes about a second of one core: the work of searches that
# take turns is counted for less than that of one.
_WORK_A_SECOND: Final = 0.4
# No start within the limit: it is doubled, up to here unless something else is said.
_LONGEST_LIMIT_S: Final = 60.0
# Jobs that may not all run at the instant at which one of them starts: its place, and theirs; below
# 0 are those that run already, counted from -1.
_Conflict = tuple[int, tuple[int, ...]]


class ListOrder(Protocol):
    """The order of a list schedule: see PriorityRule."""

    def order(self, at: CappedSituation) -> list[int]: ...


class DecompositionPlanner:
    """Plans by the relaxed model, from the list schedule of `rule` on: see StartPlanner.

    The solver has one worker, whose searches take turns, and counts its work, not the time:
    `limit_s` is about so many seconds of it, so that the same calls have the same answers on any
    machine. `rounds` is how often it is asked where jobs could not be mapped.
    """

    def __init__(
        self,
        rule: ListOrder,
        searches: Searches,
        limit_s: float = 1.0,
        rounds: int = 3,
        longest_s: float = _LONGEST_LIMIT_S,
    ) -> None:
        self._rule, self._rounds = rule, rounds
        self._limits_s = tried_limits_s(limit_s, longest_s)
        self._searches = searches
        # Arrival numbers in the order of the last plan.
        self._last: list[int] = []

    def plan(self, at: CappedSituation) -> Sequence[Planned]:
        """Plan the cheapest schedule, the list schedule included. A job that never fits starts
        never: then the list schedule stays in force. Where no job fits now, whatever the order, no
        search changes that: what starts later is planned anew then."""
        at = at._replace(using=[_not_over(each, at.now_s) for each in at.using])
        listed, order = self._listed(at)
        if listed.starts and listed.starts[0][0] > at.now_s:
            return listed.starts
        return self._cheapest(at, listed, order).starts

    def schedule(self, at: CappedSituation) -> ListSchedule:
        """Return the cheapest schedule, with what its waits cost."""
        return self._cheapest(at, *self._listed(at))

    def _listed(self, at: CappedSituation) -> tuple[ListSchedule, list[int]]:
        order = self._rule.order(at)
        listed = list_schedule(at, order)
        assert listed is not None
        return listed, order

    def _cheapest(
        self, at: CappedSituation, listed: ListSchedule, order: Sequence[int]
    ) -> ListSchedule:
        self._searches.plans += 1
        kept = None
        if self._last:
            kept = list_schedule(at, kept_order(at, order, self._last), listed.cost)
        best = self._solved_from(at, kept or listed)
        self._searches.improved += best.cost < listed.cost
        self._last = [at.waiting[place].arrival for _, place in best.starts]
        return best

    def _solved_from(self, at: CappedSituation, best: ListSchedule) -> ListSchedule:
        """Return what the solver makes of a schedule, or the schedule."""
        conflicts = list[_Conflict]()
        for _ in range(self._rounds if best.cost not in (0.0, inf) else 0):
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
        return best

    def solved(
        self, at: CappedSituation, hint: ListSchedule, conflicts: Sequence[_Conflict]
    ) -> list[float] | None:
        """Return starts by place; None without an answer at the longest limit."""
        hinted_s = _hinted_s(at, hint)
        if len(hinted_s) < len(at.waiting):
            return None  # in whole seconds what the caps leave is too short for somebody
        model, starts = _model(at, hinted_s, conflicts)
        for limit_s in self._limits_s:
            solver = cp_model.CpSolver()
            solver.parameters.num_workers = 1
            solver.parameters.random_seed = 0
            # Large neighbourhoods among them: alone the first of them improves a fifth of this.
            solver.parameters.interleave_search = True
            solver.parameters.max_deterministic_time = _WORK_A_SECOND * limit_s
            status = solver.solve(model)
            if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                return [at.now_s + float(solver.value(start)) for start in starts]
            if status != cp_model.UNKNOWN:
                return None  # the conflicts leave no schedule before the horizon
        return None


def _not_over(using: Using, now_s: float) -> Using:
    """What runs beyond its limit has its nodes for now."""
    return using._replace(release_s=max(using.release_s, now_s + 1.0))


def _model(
    at: CappedSituation, hinted_s: Mapping[int, int], conflicts: Sequence[_Conflict]
) -> tuple[Any, list[Any]]:
    """Return the relaxed model of equations 1 and 2, in whole seconds from now, with its starts."""
    model = cp_model.CpModel()
    limits_s, left_s = _limits_s(at), _left_s(at)
    # Nothing starts later than the list schedule is over.
    horizon_s = max(start_s + limits_s[place] for place, start_s in hinted_s.items())
    starts = [model.new_int_var(0, horizon_s, f"start {n}") for n in range(len(at.waiting))]
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


def _limits_s(at: CappedSituation) -> list[int]:
    """Return how many whole seconds the jobs that wait may take."""
    return [max(1, ceil(job.limit_s)) for job in at.waiting]


def _left_s(at: CappedSituation) -> list[int]:
    """Return how many whole seconds the running jobs may still take."""
    return [max(1, ceil(each.release_s - at.now_s)) for each in at.using]


def _hinted_s(at: CappedSituation, hint: ListSchedule) -> dict[int, int]:
    """Return the order of a schedule as a list schedule in whole seconds from now, by place. Its
    own starts, rounded, overlap with what ends within a second: the solver would throw them
    away."""
    releases, limits = zip(at.using, _left_s(at), strict=True), _limits_s(at)
    whole = at._replace(
        now_s=0.0,
        using=[each._replace(release_s=left_s) for each, left_s in releases],
        waiting=[job._replace(limit_s=s) for job, s in zip(at.waiting, limits, strict=True)],
        steps=[*_whole_steps(at)][1:],
    )
    played = list_schedule(whole, [place for _, place in hint.starts])
    assert played is not None
    return {place: round(start_s) for start_s, place in played.starts}


def _pools(at: CappedSituation) -> list[tuple[int, list[int]]]:
    """Return the capacity of each pool and what each job demands of it, running jobs first: watts,
    then the resources of all nodes."""
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
    """Return when the cap is below the most that it is, in whole seconds, rather longer than
    shorter, and by how much; what runs does not count against it."""
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
    """Yield the cap from now on in whole seconds: it falls sooner and rises later."""
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
    """Return a literal: the other job does not run when the job starts."""
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
    """Return the starts on nodes, or the first job whose units do not fit beside what runs then."""
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
    """Return the order of the starts as a list schedule."""
    return list_schedule(at, _in_order(starts_s), below)


def _in_order(starts_s: Sequence[float]) -> list[int]:
    return sorted(range(len(starts_s)), key=lambda place: (starts_s[place], place))

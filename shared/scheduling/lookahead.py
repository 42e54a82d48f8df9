"""The look-ahead policy: EAMC's plan of the waiting jobs, or a better one where the search finds
it.

At each instant proposals are made: the jobs in another order, each at the P-state that costs least,
and held back where energy will be cheaper. What only orders is taken: a record of how long jobs
waited judges it, and while that says that it loses EAMC's plan stays unchanged. Of what holds back,
or where all are to be judged, the head of the queue is played forward by the schedulers that
decide, under EAMC's plan and under each proposal that would start something else. It is taken where
its forecast costs less, and keeps the bound on waiting.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from heapq import nsmallest
from itertools import islice
from math import inf, sqrt
from typing import Final

from shared.domain.energy_tariff import Tariff
from shared.scheduling.plan_evaluation import (
    ExecutionMode,
    PlannedEntry,
    PlannedStart,
    Running,
    Situation,
)
from shared.scheduling.wait_queue import order_of
from shared.scheduling.wait_record import WaitRecord

_HOUR_S: Final = 3600.0
# What has waited no time yet.
_SOON_S: Final = 1.0
# What takes more than this share of a cluster runs beside none of its kind; where such jobs, one
# after the other, take more than this share of the time in which all drains, they decide when.
_HALF: Final = 0.5
# A proposal must be cheaper by more than rounding is.
_GAIN: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of time to the operator, in the tariffs' unit.

    `response_per_h` for each hour of each job from submission to end, `unit_per_h` for each hour of
    a node (or core) that is allocated to a job, which later jobs would have, and `makespan_per_h`
    for each hour until the last limit. At 1 per kWh a response of 1.5 means that an hour of a job's
    response is worth 1.5 kWh.
    """

    response_per_h: float = 1.5
    unit_per_h: float = 0.33
    makespan_per_h: float = 0.0


@dataclass(frozen=True, slots=True)
class Objective:
    """The operator's cost: energy at the tariffs, one of each cluster, and time."""

    tariffs: tuple[Tariff, ...]
    prices: Prices

    def run_cost(self, planned: PlannedEntry, start_s: float, share: float) -> float:
        """Return the cost of a job that runs for a share of its limit: nodes and energy alone, by
        which its mode is chosen. An hour less on one node is not worth as much power as one on a
        hundred."""
        run_s = share * planned.mode.limit_s
        tariff = self.tariffs[planned.cluster]
        energy = tariff.cost(planned.mode.power_w, start_s, start_s + run_s)
        return energy + self.prices.unit_per_h * planned.units * run_s / _HOUR_S

    def cost(self, planned: PlannedEntry, start_s: float, submit_s: float, share: float) -> float:
        """Return the cost of a run and of the job's response."""
        response_h = (start_s - submit_s + share * planned.mode.limit_s) / _HOUR_S
        return self.prices.response_per_h * response_h + self.run_cost(planned, start_s, share)

    def mode_cost(
        self, planned: PlannedEntry, start_s: float, from_s: float, share: float
    ) -> float:
        """Return the cost by which a mode is chosen, and whether it waits for cheaper hours."""
        waited_h = (start_s - from_s) / _HOUR_S
        return self.prices.response_per_h * waited_h + self.run_cost(planned, start_s, share)

    def lateness_cost(self, planned: PlannedEntry, start_s: float, last_s: float) -> float:
        """Return the cost of the time by which all is done later than `last_s`, by limits."""
        late_s = max(0.0, start_s + planned.mode.limit_s - last_s)
        return self.prices.makespan_per_h * late_s / _HOUR_S


class WaitOrder(StrEnum):
    """The order that proposals begin with: the time waited over the root of limit x root of units,
    what a job takes of the clusters, or the time of submission."""

    RATIO = "ratio"
    SIZE = "size"
    AGE = "age"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the search: `head` jobs are played forward, `budget` proposals at one instant.

    The first choice of a job that has waited longer than the record's budget, or `patience_s` while
    there is none, goes before those of all later jobs, and no proposal is taken by whose forecast
    such a job starts later than by EAMC's plan. With `judges_orders` an order too is taken only
    where the forecast of the head costs less, without `steps_back` whatever the record says.
    """

    head: int = 12
    budget: int = 1
    patience_s: float = 96 * _HOUR_S
    order: WaitOrder = WaitOrder.RATIO
    judges_orders: bool = False
    steps_back: bool = True


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits. By cluster: `units`, and `modes`, none where it cannot run.

    `usual` are its entries in EAMC's plan. In a tier those of the highest priority go first.
    """

    arrival: int
    submit_s: float
    units: tuple[int, ...]
    modes: tuple[tuple[ExecutionMode, ...], ...]
    usual: tuple[PlannedEntry, ...]
    priority: int = 0


@dataclass(slots=True)
class Counts:
    """Counts of the search: proposals taken, and what they save by their own forecasts."""

    taken: int = 0
    forecast_gain: float = 0.0


@dataclass(slots=True)
class LookAhead:
    """Decides what starts. The same calls have the same answers: no clock and no randomness."""

    objective: Objective
    bounds: Bounds
    counts: Counts = field(default_factory=Counts)
    record: WaitRecord = field(default_factory=WaitRecord)
    # By job: the hour in which they were made, and where it may run, the cheapest first.
    _choices: dict[int, tuple[int, list[PlannedEntry]]] = field(default_factory=dict, init=False)

    def decide(
        self, situation: Situation, waiting: Mapping[int, Waiting], share: float
    ) -> list[PlannedStart]:
        """Return what starts now of the waiting jobs, by arrival number, in the order of arrival.

        `share` is the part of their limits that jobs are expected to run for.
        """
        self.record.follow(situation, waiting, share)
        if not _has_room(situation, waiting.values()):
            return []
        search = self._search(situation, waiting, share)
        fallback = situation.starts_now(search.usual)
        new = [] if self._rests else search.new(fallback)
        found = search.best([plan for plan, _ in new]) if new else None
        if found is None:
            return fallback
        place, gain = found
        self.counts.taken += 1
        self.counts.forecast_gain += gain
        _, starts = new[place]
        return starts

    def plan(
        self, situation: Situation, waiting: Mapping[int, Waiting], share: float
    ) -> list[PlannedEntry] | None:
        """Return the plan for all starts from now on, for schedulers that follow it as time passes;
        None where EAMC's own has no better one. Arguments as of `decide`."""
        self.record.follow(situation, waiting, share)
        if not waiting or self._rests:
            return None
        search = self._search(situation, waiting, share)
        plans = search.proposals()
        found = search.best(plans)
        if found is None:
            return None
        place, gain = found
        self.counts.taken += 1
        self.counts.forecast_gain += gain
        return plans[place]

    @property
    def _rests(self) -> bool:
        return self.bounds.steps_back and self.record.rests

    def _search(
        self, situation: Situation, waiting: Mapping[int, Waiting], share: float
    ) -> "_Search":
        self._choose(situation, waiting, share)
        budget_s = self.record.budget_s if self.bounds.steps_back else 0.0
        bounds = replace(self.bounds, patience_s=budget_s or self.bounds.patience_s)
        return _Search(self.objective, bounds, situation, waiting, self._choices, share)

    def _choose(self, situation: Situation, waiting: Mapping[int, Waiting], share: float) -> None:
        """Choose for each job once an hour: prices change by the hour."""
        hour = int(situation.now_s // _HOUR_S)
        chosen: dict[int, tuple[int, list[PlannedEntry]]] = {}
        for arrival, job in waiting.items():
            chosen_in, choice = self._choices.get(arrival, (None, []))
            is_kept = chosen_in == hour
            chosen[arrival] = hour, choice if is_kept else self._cheapest(job, situation, share)
        self._choices = chosen

    def _cheapest(self, job: Waiting, situation: Situation, share: float) -> list[PlannedEntry]:
        """Return where a job may run, the cheapest first, each at its cheapest P-state."""
        found = sorted(
            min(self._costs(job, cluster, situation, share))
            for cluster, modes in enumerate(job.modes)
            if modes
        )
        _, first = found[0]
        # A job that is held back waits by choice: a cluster that is free sooner is of no use.
        return [first] if first.from_s > situation.now_s else [planned for _, planned in found]

    def _costs(
        self, job: Waiting, cluster: int, situation: Situation, share: float
    ) -> Iterator[tuple[float, PlannedEntry]]:
        """Yield the cost of a run at each P-state, from now on or from when energy is cheaper."""
        now_s, last_s = situation.now_s, situation.last_release_s
        drop_s = self.objective.tariffs[cluster].next_drop_s(now_s)
        in_time = drop_s <= job.submit_s + self.bounds.patience_s
        for mode in job.modes[cluster]:
            for from_s in (now_s, drop_s) if in_time else (now_s,):
                planned = PlannedEntry(0, job.arrival, cluster, job.units[cluster], mode, from_s)
                cost = self.objective.mode_cost(planned, from_s, now_s, share)
                yield cost + self.objective.lateness_cost(planned, from_s, last_s), planned


def _has_room(situation: Situation, waiting: Iterable[Waiting]) -> bool:
    """Return True where a waiting job may have the units that it needs now."""
    free = situation.free_units
    return any(planned.units <= free[planned.cluster] for job in waiting for planned in job.usual)


class _Search:
    """One instant's search."""

    def __init__(
        self,
        objective: Objective,
        bounds: Bounds,
        situation: Situation,
        waiting: Mapping[int, Waiting],
        choices: Mapping[int, tuple[int, list[PlannedEntry]]],
        share: float,
    ) -> None:
        self._choices = choices
        self._objective, self._bounds, self._situation = objective, bounds, situation
        self._waiting, self._share, self._now_s = waiting, share, situation.now_s
        self.usual = [planned for job in waiting.values() for planned in job.usual]
        self._aged = {
            job.arrival
            for job in waiting.values()
            if self._now_s - job.submit_s >= bounds.patience_s
        }
        self._head = _head(waiting, sorted(self.usual), bounds.head)
        self._drain_s = max(_drain_s(situation, waiting.values(), share), _SOON_S)
        self._are_wide_late = self._have_wide_to_hurry()

    def new(
        self, fallback: Iterable[PlannedStart]
    ) -> list[tuple[list[PlannedEntry], list[PlannedStart]]]:
        """Return proposals with what each starts now, where that is something else: others change
        nothing."""
        seen, new = {_begun(fallback)}, []
        for plan in self.proposals():
            starts = self._situation.starts_now(plan)
            if (begun := _begun(starts)) not in seen:
                seen.add(begun)
                new.append((plan, starts))
        return new

    def best(self, plans: Sequence[list[PlannedEntry]]) -> tuple[int, float] | None:
        """Return the number of the plan whose forecast costs least, and by how much less than
        EAMC's; the first where nothing is judged by forecasts.

        None where EAMC's costs no more, or the bound on waiting rules the others out.
        """
        if plans and not (self._bounds.judges_orders or self._holds_back(plans)):
            return 0, 0.0
        usual = self._evaluate(self.usual)
        latest_s = {start.planned.arrival: start.start_s for start in usual}
        usual_cost = least = self._cost(usual)
        found = None
        for place, plan in enumerate(plans):
            starts = self._evaluate(plan)
            cost = self._cost(starts)
            serves_all = len(starts) >= len(usual)
            is_cheaper = serves_all and cost < least - _GAIN * abs(least)
            if is_cheaper and self._is_patient(starts, latest_s):
                found, least = place, cost
        return None if found is None else (found, usual_cost - least)

    def _holds_back(self, plans: Iterable[list[PlannedEntry]]) -> bool:
        """Return whether a job is to wait for cheaper hours."""
        return any(planned.from_s > self._now_s for plan in plans for planned in plan)

    # Proposals ----------------------------------------------------------------------------------

    def proposals(self) -> list[list[PlannedEntry]]:
        """Return as many proposals as the budget allows."""
        return list(islice(self._proposals(), self._bounds.budget))

    def _proposals(self) -> Iterator[list[PlannedEntry]]:
        """Yield plans, each of another order of the jobs that have not waited too long."""
        orders: dict[WaitOrder, Callable[[Waiting], float]] = {
            WaitOrder.RATIO: self._root_over_waited,
            WaitOrder.AGE: _submit_s,
            WaitOrder.SIZE: _burden,
        }
        yield self._plan(orders.pop(self._bounds.order))
        for order in orders.values():
            yield self._plan(order)
        for arrival in self._head:
            yield self._plan(self._promoting(arrival))

    def _root_over_waited(self, job: Waiting) -> float:
        """Return the rank of a job: those that waited longest for the root of limit x root of units
        go first. By units alone wide jobs, which fill no gaps, would be left for the end.

        A limit counts up to the time in which all that is known drains. What is longer would end
        last at any place, and passed by all others it would run on alone. Units of wide jobs count
        for nothing where these decide when all has drained."""
        limit_s = min(self._drain_s, *(planned.mode.limit_s for planned in job.usual))
        units = min(planned.units for planned in job.usual)
        if self._are_wide_late and self._is_wide(min(job.usual)):
            units = 1
        return sqrt(limit_s * sqrt(units)) / (self._now_s - job.submit_s + _SOON_S)

    def _have_wide_to_hurry(self) -> bool:
        """Return whether the wide jobs decide when all has drained: it takes longer than any job
        may, and they take over half of it, one after the other on each cluster."""
        first = [min(job.usual) for job in self._waiting.values()]
        if self._drain_s < max((planned.mode.limit_s for planned in first), default=0.0):
            return False
        wide = filter(self._is_wide, self._situation.running.values())
        left_s = sum(_left_s(run, self._situation) for run in wide)
        coming_s = sum(self._share * each.mode.limit_s for each in first if self._is_wide(each))
        return left_s + coming_s >= _HALF * self._drain_s * len(self._situation.pools)

    def _is_wide(self, taken: PlannedEntry | Running) -> bool:
        """Return whether it takes over half of its cluster."""
        return taken.units > _HALF * self._situation.pools[taken.cluster].units

    def _promoting(self, arrival: int) -> Callable[[Waiting], float]:
        return lambda job: -1.0 if job.arrival == arrival else self._root_over_waited(job)

    def _plan(self, order: Callable[[Waiting], float]) -> list[PlannedEntry]:
        """Return the first choices in the first tier, others behind them; jobs that have waited too
        long before all others."""
        aged = dict.fromkeys(self._aged, (False, 0.0))
        ordered = sorted(
            self._waiting.values(),
            key=lambda job: (
                -job.priority,
                *(aged.get(job.arrival) or (True, order(job))),
                job.arrival,
            ),
        )
        return [
            planned._replace(order=order_of(rank, place, 0))
            for place, job in enumerate(ordered)
            for rank, planned in enumerate(self._choices[job.arrival][1])
        ]

    # Forecasts ----------------------------------------------------------------------------------

    def _evaluate(self, plan: Iterable[PlannedEntry]) -> list[PlannedStart]:
        head = (planned for planned in plan if planned.arrival in self._head)
        return self._situation.evaluate(head, self._share)

    def _cost(self, starts: Iterable[PlannedStart]) -> float:
        """Return the objective of a forecast."""
        last_s, cost = self._now_s, 0.0
        for planned, start_s, _ in starts:
            submit_s = self._waiting[planned.arrival].submit_s
            cost += self._objective.cost(planned, start_s, submit_s, self._share)
            last_s = max(last_s, start_s + planned.mode.limit_s)
        return cost + self._objective.prices.makespan_per_h * (last_s - self._now_s) / _HOUR_S

    def _is_patient(self, starts: Iterable[PlannedStart], latest_s: Mapping[int, float]) -> bool:
        """Return True where no job that has waited too long waits longer than by EAMC's plan."""
        return all(
            start_s <= latest_s.get(planned.arrival, inf)
            for planned, start_s, _ in starts
            if planned.arrival in self._aged
        )


def _drain_s(situation: Situation, waiting: Iterable[Waiting], share: float) -> float:
    """Return how long all nodes would be busy with what runs and waits, as that is expected."""
    left_s = sum(run.units * _left_s(run, situation) for run in situation.running.values())
    first = [min(job.usual) for job in waiting]
    coming_s = sum(share * planned.mode.limit_s * planned.units for planned in first)
    return (left_s + coming_s) / sum(pool.units for pool in situation.pools)


def _left_s(running: Running, situation: Situation) -> float:
    """Return for how long a job is expected to run on. Nodes that are lost for good are no work."""
    return max(running.expected_s - situation.now_s, 0.0) if running.expected_s < inf else 0.0


def _head(
    waiting: Mapping[int, Waiting], usual: Iterable[PlannedEntry], count: int
) -> frozenset[int]:
    """Return the head of the queue: half of it the first jobs by EAMC's order, and of the others
    those that take least. Where the queue is long, they gain most."""
    first = list(dict.fromkeys(planned.arrival for planned in usual))
    half = count // 2
    behind = nsmallest(count - half, first[half:], key=lambda arrival: _burden(waiting[arrival]))
    return frozenset((*first[:half], *behind))


def _burden(job: Waiting) -> float:
    """Return what a job takes of the clusters: the least units x root of h of its usual entries.

    By units x time long jobs would come last, and end last.
    """
    return min(planned.units * sqrt(planned.mode.limit_s / _HOUR_S) for planned in job.usual)


def _submit_s(job: Waiting) -> float:
    return job.submit_s


def _begun(starts: Iterable[PlannedStart]) -> frozenset[tuple[int, int, int]]:
    """Return the starts, as (job, cluster, P-state)."""
    return frozenset(
        (planned.arrival, planned.cluster, planned.mode.pstate) for planned, _, _ in starts
    )

"""Instances of Eurora played on its nodes, which are given out in parts."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from statistics import fmean
from time import perf_counter
from typing import Final, NamedTuple

import numpy as np

from coplace_client.errors import UnusableError
from lab.simulation.schedules import PlacedJob, violations
from lab.workloads.eurora import EuroraJob, EuroraMachine, EuroraUnit
from shared.models.bounded_slowdown import THRESHOLD_S
from shared.planning.searches import Searches
from shared.scheduling.backfill import Backfill
from shared.scheduling.capacity import Capacity, Group
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.dispatch import Dispatcher, Served
from shared.scheduling.engine import Engine
from shared.scheduling.power import PowerBudget, milliwatts
from shared.scheduling.power_sharing import PowerSharing
from shared.scheduling.problem import CORES, MEMORY, Allocation, Kind, NodeTable, Shape, mib
from shared.scheduling.sharing import Member
from shared.scheduling.wait_queue import Entry, WaitQueue, order_of

# Of bounded slowdowns in the paper; in the published results it is THRESHOLD_S.
PAPER_THRESHOLD_S: Final = 300.0


class Anybody:
    """Everybody accepts everybody: nothing is known of what neighbours cost each other here."""

    def accepts_anyone(self, app: str) -> bool:
        """Return true: nobody is refused."""
        return True

    def cost(self, newcomer: Member, group: Group) -> float:
        """Return what it costs all on a node if the newcomer comes: nothing."""
        return 0.0

    def slowdown(self, one: Member, others: Group) -> float:
        """Return T_co / T_solo beside the others: 1, nobody slows anybody down."""
        return 1.0

    def refusal(self, newcomer: Member, groups: Iterable[Group]) -> str:
        """Return a text that is never shown, since nobody is refused."""
        return "nobody is refused"


class Draw(NamedTuple):
    """What a job draws, and from when on; until the next of it, or until it ends."""

    from_s: float
    draw_mw: int


@dataclass(frozen=True, slots=True)
class EuroraRun:
    """A schedule, what each job drew in it, how long each of its passes took, in s, and what became
    of the searches for plans."""

    jobs: tuple[EuroraJob, ...]
    placements: tuple[PlacedJob, ...]
    draws: tuple[tuple[Draw, ...], ...]
    passes_s: tuple[float, ...]
    searches: Searches = field(default_factory=Searches)


@dataclass(frozen=True, slots=True)
class EuroraFigures:
    """The measures of the published results. Bounded slowdowns count from 60 s on."""

    bounded_slowdown: float
    makespan_s: float
    queue_time_s: float
    max_power_w: float


def table_of(machine: EuroraMachine) -> NodeTable:
    """Return what its nodes have."""
    classes = machine.node_classes
    names = sorted({name for each in classes for name, _ in each.resources})
    columns = [
        [
            machine.cores_per_node,
            mib(each.memory_gib),
            *(dict(each.resources).get(n, 0) for n in names),
        ]
        for each in classes
    ]
    amounts = np.repeat(np.array(columns).T, [each.nodes for each in classes], axis=1)
    return NodeTable((CORES, MEMORY, *names), np.ascontiguousarray(amounts, dtype=np.int64))


def dispatcher_of(machine: EuroraMachine, jobs: Sequence[EuroraJob]) -> Backfill:
    """Return EASY on the machine's nodes, with the jobs as arrivals in this order.

    Raises UnusableError for a resource that no node has, and, when it arrives, for a job that the
    empty machine does not hold.
    """
    table = table_of(machine)
    scheduler, entries = easy_of(table, jobs), entries_of(table, jobs)
    return Backfill([scheduler], (((0, entry),) for entry in entries))


def easy_of(
    table: NodeTable, jobs: Sequence[EuroraJob], budgets: Sequence[PowerBudget] = ()
) -> ConsumableScheduler:
    """Return a scheduler of empty nodes for entries of these jobs. Raises UnusableError for a
    resource that no node has."""
    kinds = kinds_of(table, jobs)
    return ConsumableScheduler(
        Capacity(table), [], WaitQueue(), list(kinds.values()), Anybody(), budgets=budgets
    )


def kinds_of(table: NodeTable, jobs: Sequence[EuroraJob]) -> dict[EuroraUnit, Kind]:
    """Return the kinds of jobs by their units, in the order in which they are met first. Raises
    UnusableError for a resource that no node has."""
    first_with = {job.unit: job for job in reversed(jobs)}
    return {unit: _kind(job, table) for unit, job in first_with.items()}


def entries_of(table: NodeTable, jobs: Sequence[EuroraJob]) -> Iterator[Entry]:
    """Yield the jobs as entries of their kinds, in this order, drawing what they draw at full
    power. Raises UnusableError for a job that does not fit on the empty machine."""
    kinds = kinds_of(table, jobs)
    numbers = {unit: number for number, unit in enumerate(kinds)}
    most = {unit: int(table.fitting(kind.shape).sum()) for unit, kind in kinds.items()}
    for number, job in enumerate(jobs):
        if job.units > most[job.unit]:
            raise UnusableError(f"job {job.job_id} needs {job.units} units of {job.unit}: too many")
        yield Entry(
            order=order_of(0, number, 0),
            arrival=number,
            nodes=job.units,
            limit_s=job.walltime_s,
            in_parts=True,
            kind=numbers[job.unit],
            draw_mw=milliwatts(job.power_w),
        )


def _kind(job: EuroraJob, table: NodeTable) -> Kind:
    """Any number of its units may be on one node."""
    has = dict(job.unit.resources)
    if unknown := has.keys() - set(table.names):
        raise UnusableError(f"job {job.job_id} needs {min(unknown)}, which no node has")
    named = (has.get(name, 0) for name in table.names[2:])
    needs = (job.unit.cores, mib(job.unit.memory_gib), *named)
    return Kind("", Shape(needs, exclusive=False, most_per_node=0))


def play_eurora(machine: EuroraMachine, jobs: Sequence[EuroraJob]) -> EuroraRun:
    """Play an instance under EASY without a cap. The scheduler knows walltimes; jobs end when they
    end.

    Raises UnusableError for a job that the empty machine does not hold.
    """

    def runs_s(served: Served) -> float:
        return jobs[served[1].arrival].runtime_s

    return play(jobs, dispatcher_of(machine, jobs), runs_s)


def play(
    jobs: Sequence[EuroraJob], dispatcher: Dispatcher, runs_s: Callable[[Served], float]
) -> EuroraRun:
    """Play an instance under a dispatcher to which these jobs arrive; `runs_s` is how long what it
    starts will run undisturbed. Raises UnusableError where jobs wait for ever."""
    submit_s = [job.submit_s for job in jobs]
    engine = Engine(dispatcher, submit_s, runs_s, submit_s[0] if jobs else inf)
    accounting = _JobAccounting(dispatcher)
    passes_s = list[float]()
    while len(accounting.end_s) < len(jobs):
        if engine.next_s == inf:
            first = next(job for n, job in enumerate(jobs) if n not in accounting.end_s)
            raise UnusableError(f"job {first.job_id} waits for ever: nothing lets it start")
        began_s = perf_counter()
        started = engine.step()
        passes_s.append(perf_counter() - began_s)
        accounting.add(engine, started)
    return EuroraRun(
        tuple(jobs),
        tuple(accounting.placed(number, job) for number, job in enumerate(jobs)),
        tuple(tuple(accounting.draws[number]) for number in range(len(jobs))),
        tuple(passes_s),
    )


class _JobAccounting:
    """What happened to each job, by number."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._sharing = dispatcher if isinstance(dispatcher, PowerSharing) else None
        self._began: dict[int, tuple[float, Allocation]] = {}
        self.end_s: dict[int, float] = {}
        self.draws: dict[int, list[Draw]] = {}

    def add(self, engine: Engine, started: Iterable[Served]) -> None:
        """What happened at the engine's instant."""
        now_s = engine.now_s
        self.end_s.update(dict.fromkeys(engine.ended, now_s))
        for _, entry, allocation, _ in started:
            assert allocation is not None
            self._began[entry.arrival] = now_s, allocation
            self.draws[entry.arrival] = [] if self._sharing else [Draw(now_s, entry.draw_mw)]
        for number, mw in self._sharing.given_mw.items() if self._sharing else ():
            draws = self.draws[number]
            if not draws or draws[-1].draw_mw != mw:
                draws.append(Draw(now_s, mw))

    def placed(self, number: int, job: EuroraJob) -> PlacedJob:
        """The job as it ran."""
        start_s, allocation = self._began[number]
        on = zip(allocation.nodes, allocation.units, strict=True)
        return PlacedJob(
            job_id=job.job_id,
            submit_s=job.submit_s,
            start_s=start_s,
            end_s=self.end_s[number],
            units=job.units,
            nodes=tuple(node for node, units in on for _ in range(units)),
            cores_per_unit=job.unit.cores,
            memory_gib_per_unit=job.unit.memory_gib,
            resources_per_unit=job.unit.resources,
        )


def impossible_in(run: EuroraRun, machine: EuroraMachine) -> list[str]:
    """Return what the independent checker finds wrong, in words."""
    return list(violations(run.placements, machine.cores_per_node, machine.node_classes))


def figures_of(run: EuroraRun, threshold_s: float = THRESHOLD_S) -> EuroraFigures:
    """Return the figures of a schedule; a job that was slowed down took as long as it took
    (equation 3 of Borghesi and others, 2018)."""
    waits_s = [placement.start_s - placement.submit_s for placement in run.placements]
    slowdowns = (
        max(1.0, (placement.end_s - placement.submit_s) / max(threshold_s, job.runtime_s))
        for placement, job in zip(run.placements, run.jobs, strict=True)
    )
    return EuroraFigures(
        bounded_slowdown=fmean(slowdowns),
        makespan_s=max(placement.end_s for placement in run.placements),
        queue_time_s=sum(waits_s),
        max_power_w=max(mw for _, mw in drawn_mw(run)) / 1000,
    )


def drawn_mw(run: EuroraRun) -> Iterator[tuple[float, int]]:
    """Yield what all jobs together draw from each moment on at which that changes, by time: the
    ends and the starts of one moment together."""
    changes: dict[float, int] = defaultdict(int)
    for placement, draws in zip(run.placements, run.draws, strict=True):
        before_mw = 0
        for from_s, mw in draws:
            changes[from_s] += mw - before_mw
            before_mw = mw
        changes[placement.end_s] -= before_mw
    times_s = sorted(changes)
    return zip(times_s, accumulate(changes[time_s] for time_s in times_s), strict=True)

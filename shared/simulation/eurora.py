"""Instances of Eurora under EASY backfill, on nodes that are given out in parts, without a cap."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from statistics import fmean
from time import perf_counter
from typing import Final

import numpy as np

from shared.domain.errors import UnusableError
from shared.scheduling.backfill import Backfill
from shared.scheduling.capacity import Capacity, Group
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.dispatch import Served
from shared.scheduling.engine import Engine
from shared.scheduling.problem import CORES, MEMORY, Allocation, Kind, NodeTable, Shape, mib
from shared.scheduling.sharing import Member
from shared.scheduling.wait_queue import Entry, WaitQueue, order_of
from shared.simulation.schedules import PlacedJob, violations
from shared.workloads.eurora import EuroraJob, EuroraMachine

_THRESHOLD_S: Final = 60.0


class Anybody:
    """Everybody accepts everybody: nothing is known of what neighbours cost each other here."""

    def cost(self, newcomer: Member, group: Group) -> float:
        """What it costs all on a node if the newcomer comes: nothing."""
        return 0.0

    def slowdown(self, one: Member, others: Group) -> float:
        """T_co / T_solo beside the others: 1, nobody slows anybody down."""
        return 1.0

    def refusal(self, newcomer: Member, groups: Iterable[Group]) -> str:
        """It never refuses."""
        return "nobody is refused"


@dataclass(frozen=True, slots=True)
class EuroraRun:
    """A schedule, and how long each of its passes took, in s."""

    jobs: tuple[EuroraJob, ...]
    placements: tuple[PlacedJob, ...]
    passes_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class EuroraFigures:
    """The measures of the published results. Bounded slowdowns count from 60 s on."""

    bounded_slowdown: float
    makespan_s: float
    queue_time_s: float
    max_power_w: int


def table_of(machine: EuroraMachine) -> NodeTable:
    """What its nodes have."""
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
    """EASY on the machine's nodes, with the jobs as arrivals in this order.

    Raises UnusableError for a resource that no node has, and, when it arrives, for a job that the
    empty machine does not hold.
    """
    table = table_of(machine)
    first_with = {job.unit: job for job in reversed(jobs)}
    numbers = {unit: number for number, unit in enumerate(first_with)}
    kinds = [_kind(job, table) for job in first_with.values()]
    scheduler = ConsumableScheduler(Capacity(table), [], WaitQueue(), kinds, Anybody())

    def arrival(number: int) -> list[tuple[int, Entry]]:
        job = jobs[number]
        kind = numbers[job.unit]
        entry = Entry(order_of(0, number, 0), number, job.units, job.walltime_s, True, kind)
        if job.units > scheduler.most_units(entry):
            raise UnusableError(f"job {job.job_id} needs {job.units} units of {job.unit}: too many")
        return [(0, entry)]

    return Backfill([scheduler], map(arrival, range(len(jobs))))


def _kind(job: EuroraJob, table: NodeTable) -> Kind:
    """Any number of its units may be on one node."""
    has = dict(job.unit.resources)
    if unknown := has.keys() - set(table.names):
        raise UnusableError(f"job {job.job_id} needs {min(unknown)}, which no node has")
    named = (has.get(name, 0) for name in table.names[2:])
    needs = (job.unit.cores, mib(job.unit.memory_gib), *named)
    return Kind("", Shape(needs, exclusive=False, most_per_node=0))


def play_eurora(machine: EuroraMachine, jobs: Sequence[EuroraJob]) -> EuroraRun:
    """Play an instance. The scheduler knows walltimes; jobs end when they end.

    Raises UnusableError for a job that the empty machine does not hold.
    """
    submit_s = [job.submit_s for job in jobs]

    def runs_s(served: Served) -> float:
        return jobs[served[1].arrival].runtime_s

    engine = Engine(dispatcher_of(machine, jobs), submit_s, runs_s, submit_s[0] if jobs else inf)
    placements: dict[int, PlacedJob] = {}
    passes_s = list[float]()
    while not engine.is_over:
        began_s = perf_counter()
        started = engine.step()
        passes_s.append(perf_counter() - began_s)
        for _, entry, allocation, _ in started:
            assert allocation is not None
            number = entry.arrival
            placements[number] = _placed(jobs[number], engine.now_s, allocation)
    return EuroraRun(tuple(jobs), tuple(placements[n] for n in range(len(jobs))), tuple(passes_s))


def _placed(job: EuroraJob, now_s: float, allocation: Allocation) -> PlacedJob:
    on = zip(allocation.nodes, allocation.units, strict=True)
    return PlacedJob(
        job_id=job.job_id,
        submit_s=job.submit_s,
        start_s=now_s,
        end_s=now_s + job.runtime_s,
        units=job.units,
        nodes=tuple(node for node, units in on for _ in range(units)),
        cores_per_unit=job.unit.cores,
        memory_gib_per_unit=job.unit.memory_gib,
        resources_per_unit=job.unit.resources,
    )


def impossible_in(run: EuroraRun, machine: EuroraMachine) -> list[str]:
    """What the independent checker finds wrong, in words."""
    return list(violations(run.placements, machine.cores_per_node, machine.node_classes))


def figures_of(run: EuroraRun) -> EuroraFigures:
    """What a schedule comes to."""
    waits_s = [placement.start_s - placement.submit_s for placement in run.placements]
    slowdowns = (
        max(1.0, (wait_s + job.runtime_s) / max(_THRESHOLD_S, job.runtime_s))
        for wait_s, job in zip(waits_s, run.jobs, strict=True)
    )
    return EuroraFigures(
        bounded_slowdown=fmean(slowdowns),
        makespan_s=max(placement.end_s for placement in run.placements),
        queue_time_s=sum(waits_s),
        max_power_w=_highest_power_w(run),
    )


def _highest_power_w(run: EuroraRun) -> int:
    """Ends come before starts of the same moment."""
    changes = []
    for job, placement in zip(run.jobs, run.placements, strict=True):
        changes += [(placement.start_s, job.power_w), (placement.end_s, -job.power_w)]
    return max(accumulate(power_w for _, power_w in sorted(changes)))

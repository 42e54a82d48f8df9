"""Checks whether a schedule is possible, by adding up what is allocated, without any scheduler's
code."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from shared.domain.cluster import NodeClass
from shared.domain.resources import Resources


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """A job as it ran: `nodes` are those of its units, one for each, so that a node of several
    units is listed as often."""

    job_id: str
    submit_s: float
    start_s: float
    end_s: float
    units: int
    nodes: tuple[int, ...]
    cores_per_unit: int
    memory_gib_per_unit: float
    resources_per_unit: Resources = ()


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a job drew: from when on how much, in mW, until `end_s`. At `full_mw` it takes
    `runtime_s`; with a part M of that 1 + `factor` (1/M - 1) times as long."""

    job_id: str
    full_mw: int
    runtime_s: float
    factor: float
    draws: Sequence[tuple[float, int]]
    end_s: float


@dataclass(frozen=True, slots=True)
class _Change:
    """What a unit takes of a node from a moment on, or gives back."""

    time_s: float
    sign: int
    placement: PlacedJob


def violations(
    placements: Sequence[PlacedJob], cores_per_node: int, node_classes: Sequence[NodeClass]
) -> Iterator[str]:
    """Yield what is impossible in a schedule, in words: starts before a submission, units without a
    node, and moments at which a node gives more cores, memory or resources than it has."""
    nodes = [each for each in node_classes for _ in range(each.nodes)]
    for placement in placements:
        yield from _impossible(placement, len(nodes))
    for node, changes in sorted(_changes(placements).items()):
        if node < len(nodes):
            yield from _beyond(node, _has(cores_per_node, nodes[node]), changes)


def _impossible(placement: PlacedJob, nodes: int) -> Iterator[str]:
    job = placement.job_id
    if placement.start_s < placement.submit_s:
        yield f"{job} starts at {placement.start_s} s, before its submission"
    if placement.end_s < placement.start_s:
        yield f"{job} ends at {placement.end_s} s, before its start"
    if len(placement.nodes) != placement.units:
        yield f"{job} has {len(placement.nodes)} of its {placement.units} units"
    for node in placement.nodes:
        if not 0 <= node < nodes:
            yield f"{job} runs on node {node} of {nodes}"


def _changes(placements: Iterable[PlacedJob]) -> Mapping[int, list[_Change]]:
    found: dict[int, list[_Change]] = defaultdict(list)
    for placement in placements:
        for node in placement.nodes:
            found[node].append(_Change(placement.start_s, 1, placement))
            found[node].append(_Change(placement.end_s, -1, placement))
    return found


def _has(cores_per_node: int, node_class: NodeClass) -> dict[str, float]:
    """What a node gives; memory that nobody declared has no end."""
    memory_gib = node_class.memory_gib or float("inf")
    return {"cores": cores_per_node, "memory_gib": memory_gib, **dict(node_class.resources)}


def _takes(placement: PlacedJob) -> dict[str, float]:
    return {
        "cores": placement.cores_per_unit,
        "memory_gib": placement.memory_gib_per_unit,
        **dict(placement.resources_per_unit),
    }


def _beyond(node: int, has: Mapping[str, float], changes: list[_Change]) -> Iterator[str]:
    """Ends come before starts of the same moment."""
    held: dict[str, float] = defaultdict(float)
    for change in sorted(changes, key=lambda change: (change.time_s, change.sign)):
        for what, amount in _takes(change.placement).items():
            held[what] += change.sign * amount
            if change.sign > 0 and held[what] > has.get(what, 0) * (1 + 1e-9):
                job = change.placement.job_id
                yield (
                    f"node {node} gives {held[what]:g} {what} of {has.get(what, 0):g} at "
                    f"{change.time_s} s, with {job}"
                )


def power_violations(jobs: Sequence[Drawn], cap: Sequence[tuple[float, int]]) -> Iterator[str]:
    """Yield what is impossible in what jobs drew, in words: more than they want, work that is not
    the sum of what they drew, and moments at which all together draw more than the cap. `cap` is
    from when on it is how many mW, ascending; before there is none."""
    for job in jobs:
        yield from _not_its_own(job)
    yield from _above(jobs, cap)


def _not_its_own(job: Drawn) -> Iterator[str]:
    done_s = 0.0
    ends_s = [*(from_s for from_s, _ in job.draws[1:]), job.end_s]
    for (from_s, mw), until_s in zip(job.draws, ends_s, strict=True):
        if not 0 < mw <= job.full_mw:
            yield f"{job.job_id} draws {mw} mW at {from_s} s, {job.full_mw} mW at full power"
            return
        done_s += (until_s - from_s) / (1 + job.factor * (job.full_mw / mw - 1))
    if abs(done_s - job.runtime_s) > 1e-6 * max(1.0, job.end_s):
        yield f"{job.job_id} gets {done_s} s of its {job.runtime_s} s done"


def _above(jobs: Sequence[Drawn], cap: Sequence[tuple[float, int]]) -> Iterator[str]:
    """Ends come before starts and before another cap of the same moment."""
    changes: dict[float, int] = defaultdict(int)
    for job in jobs:
        before_mw = 0
        for from_s, mw in job.draws:
            changes[from_s] += mw - before_mw
            before_mw = mw
        changes[job.end_s] -= before_mw
    caps_mw: dict[float, float] = dict(cap)
    drawn_mw, cap_mw = 0, inf
    for time_s in sorted({*changes, *caps_mw}):
        drawn_mw += changes.get(time_s, 0)
        cap_mw = caps_mw.get(time_s, cap_mw)
        if drawn_mw > cap_mw:
            yield f"{drawn_mw / 1000:g} W at {time_s} s: the cap is {cap_mw / 1000:g} W"

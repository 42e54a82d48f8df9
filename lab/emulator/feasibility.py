"""What a resource manager refuses to obey: a decision that its nodes cannot carry out."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import Final

from coplace.v1.placement_pb2 import PlacementDecided

from coplace_client.millicores import cores_text, millicores
from lab.emulator.machine import Machine
from lab.emulator.running import RunningJob
from lab.emulator.shapes import millicores_of_unit, most_units_a_node, unit_on
from lab.workloads.request import JobRequest
from shared.domain.features import parse_features
from shared.domain.job import named_nodes

# A decision names so many of those that are already there.
MOST_CO_RUNNERS_NAMED: Final = 32


class ImpossibleDecisionError(Exception):
    """A placement decision that cannot be obeyed: placement and its clusters disagree."""

    def __init__(self, decision: PlacementDecided, problem: str) -> None:
        super().__init__(f"round {decision.round}, job {decision.job_id}: {problem}")


def require_possible(
    decision: PlacementDecided,
    request: JobRequest,
    machine: Machine,
    running: Mapping[str, RunningJob],
) -> None:
    """Raise ImpossibleDecisionError unless the job can start as decided beside what runs."""
    require_pstate(decision, decision.freq_ghz, machine)
    problem = (
        _wrong_request(decision, request, machine)
        or _wrong_nodes(decision, machine)
        or _wrong_parts(decision, request, machine)
        or _wrong_units(decision, request)
        or _wrong_room(decision, request, machine)
        or _wrong_neighbours(decision, request, machine, running)
    )
    if problem:
        raise ImpossibleDecisionError(decision, problem)


def require_pstate(decision: PlacementDecided, freq_ghz: float, machine: Machine) -> None:
    """Raise ImpossibleDecisionError for what is no P-state of the cluster."""
    if freq_ghz not in machine.cluster.pstates_ghz:
        problem = f"{freq_ghz} GHz is not a P-state of {machine.cluster.name}"
        raise ImpossibleDecisionError(decision, problem)


def units_of(decision: PlacementDecided) -> Sequence[int]:
    """Return the units on each of its nodes: one where it does not say."""
    return decision.node_units or [1] * len(decision.node_indices)


def unit_given(decision: PlacementDecided) -> int:
    """Return the thousandths of a core that it gives each unit."""
    return millicores(decision.cores_per_node, decision.millicores_per_unit)


def named_co_runners(decision: PlacementDecided) -> list[str]:
    """Return the jobs that are said to be on its nodes."""
    first = [decision.co_runner_job_id] if decision.co_runner_job_id else []
    return list(decision.co_runner_job_ids) or first


def _wrong_request(decision: PlacementDecided, request: JobRequest, machine: Machine) -> str | None:
    cluster = machine.cluster
    asked = millicores_of_unit(request, cluster)
    if (given := unit_given(decision)) != asked:
        used = cores_text(asked)
        return f"uses {used} cores a unit on {cluster.name}, got {cores_text(given)}"
    if not decision.walltime_s > 0:
        return f"its limit must be above 0 s, got {decision.walltime_s}"
    return None


def _wrong_nodes(decision: PlacementDecided, machine: Machine) -> str | None:
    nodes = decision.node_indices
    if not nodes or len(set(nodes)) != len(nodes):
        return f"needs different nodes, got {len(set(nodes))} of {len(nodes)}"
    if max(nodes) >= machine.cluster.nodes:
        return f"{machine.cluster.name} has no node {max(nodes)}"
    return None


def _wrong_parts(decision: PlacementDecided, request: JobRequest, machine: Machine) -> str | None:
    """Each part of a gang has as many nodes as it takes, all of its own, where it may be."""
    if not request.parts:
        return _wrong_place(decision.node_indices, request, machine)
    placed = [list(each.node_indices) for each in decision.parts]
    asked = [each.nodes for each in request.parts]
    if [*map(len, placed)] != asked:
        return f"has parts of {asked} nodes, got {[*map(len, placed)]}"
    if sorted(chain.from_iterable(placed)) != sorted(decision.node_indices):
        return f"has nodes {sorted(decision.node_indices)}, got {placed} for its parts"
    for nodes, part in zip(placed, request.parts, strict=True):
        partitions = part.partitions or request.partitions
        alone = replace(
            request, parts=(), partitions=partitions, features=part.features or request.features
        )
        if problem := _wrong_place(nodes, alone, machine):
            return problem
    return None


def _wrong_place(nodes: Sequence[int], request: JobRequest, machine: Machine) -> str | None:
    """All nodes are of one of its partitions, and have its features."""
    cluster, names = machine.cluster, machine.node_names
    got = {names[node] for node in nodes}
    asked = [each for each in cluster.partitions if each.name in request.partitions]
    if request.partitions and not any(got.issubset(named_nodes(each.nodes)) for each in asked):
        return f"is to be in one of {', '.join(request.partitions)}, got {', '.join(sorted(got))}"
    if not request.features:
        return None
    ends = list(accumulate(each.nodes for each in cluster.node_classes))
    classes = {bisect_right(ends, node) for node in nodes}
    expression = parse_features(request.features)
    lacking = [n for n in classes if not expression.holds({*cluster.node_classes[n].features})]
    return f"needs nodes with {request.features}" if lacking else None


def _wrong_units(decision: PlacementDecided, request: JobRequest) -> str | None:
    units = units_of(decision)
    if len(units) != len(decision.node_indices):
        return f"gives the units of {len(units)} nodes, got {len(decision.node_indices)}"
    if sum(units) != request.nodes or not all(units):
        return f"asked for {request.nodes} units, got {sum(units)} on {len(units)} nodes"
    most = most_units_a_node(request)
    if most is not None and max(units) > most:
        return f"may have {most} units on one node, got {max(units)}"
    return None


def _wrong_room(decision: PlacementDecided, request: JobRequest, machine: Machine) -> str | None:
    unit = unit_on(request, machine.cluster)
    for node, units in zip(decision.node_indices, units_of(decision), strict=True):
        short = machine.lacks(node, unit.times(units))
        if short:
            return f"{machine.node_names[node]} has not so much free: it would give {short}"
    return None


def _wrong_neighbours(
    decision: PlacementDecided,
    request: JobRequest,
    machine: Machine,
    running: Mapping[str, RunningJob],
) -> str | None:
    named = set(named_co_runners(decision))
    there = machine.jobs_on(decision.node_indices)
    for job in sorted(named - set(there)):
        return f"its co-runner {job} " + ("is elsewhere" if job in running else "does not run")
    if there and not named:
        return f"shares nodes without naming its co-runner {there[0]}"
    if len(named) < min(len(there), MOST_CO_RUNNERS_NAMED):
        return f"names {len(named)} of its {len(there)} co-runners"
    if named and decision.co_runner_job_id != named_co_runners(decision)[0]:
        return f"names {decision.co_runner_job_id!r} not as the first of its co-runners"
    return _unwilling(request, [running[job].request for job in there])


def _unwilling(request: JobRequest, there: Sequence[JobRequest]) -> str | None:
    """Nobody shares a node who did not agree."""
    if there and not all(each.shareable for each in (request, *there)):
        return "it and its co-runners must all be shareable"
    return None

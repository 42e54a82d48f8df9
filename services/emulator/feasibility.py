"""What a resource manager refuses to obey: a decision that its nodes cannot carry out."""

from coplace.v1.placement_pb2 import PlacementDecided

from services.emulator.machine import Machine
from services.emulator.running import ATTEMPT, Running
from shared.workloads.request import JobRequest


class ImpossibleDecisionError(Exception):
    """A placement decision that cannot be obeyed: placement and its clusters disagree."""

    def __init__(self, decision: PlacementDecided, problem: str) -> None:
        super().__init__(f"round {decision.round}, job {decision.job_id}: {problem}")


def require_possible(
    decision: PlacementDecided,
    request: JobRequest,
    machine: Machine,
    co_runner: Running | None,
) -> None:
    """Raise ImpossibleDecisionError unless the job can start as decided."""
    problem = (
        _wrong_request(decision, request, machine)
        or _wrong_nodes(decision, request, machine)
        or _wrong_neighbour(decision, request, machine, co_runner)
    )
    if problem:
        raise ImpossibleDecisionError(decision, problem)


def _wrong_request(decision: PlacementDecided, request: JobRequest, machine: Machine) -> str | None:
    cluster = machine.cluster
    cores = cluster.cores_for(shareable=request.shareable)
    if decision.attempt != ATTEMPT:
        return f"attempt {decision.attempt} was never submitted"
    if decision.freq_ghz not in cluster.pstates_ghz:
        return f"{decision.freq_ghz} GHz is no P-state of {cluster.name}"
    if decision.cores_per_node != cores:
        return f"uses {cores} cores a node of {cluster.name}, got {decision.cores_per_node}"
    if not decision.walltime_s > 0:
        return f"its limit must be above 0 s, got {decision.walltime_s}"
    return None


def _wrong_nodes(decision: PlacementDecided, request: JobRequest, machine: Machine) -> str | None:
    nodes = decision.node_indices
    if len(nodes) != request.nodes or len(set(nodes)) != len(nodes):
        return f"asked for {request.nodes} nodes, got {len(set(nodes))} different of {len(nodes)}"
    if max(nodes) >= machine.cluster.nodes:
        return f"{machine.cluster.name} has no node {max(nodes)}"
    short = machine.short_of_cores(nodes, decision.cores_per_node)
    return f"{short} has not {decision.cores_per_node} cores free" if short else None


def _wrong_neighbour(
    decision: PlacementDecided,
    request: JobRequest,
    machine: Machine,
    co_runner: Running | None,
) -> str | None:
    named = decision.co_runner_job_id
    if not named:
        used = machine.used_cores(decision.node_indices)
        return "shares nodes without naming its co-runner" if used else None
    if co_runner is None:
        return f"its co-runner {named} does not run"
    if co_runner.co_runner is not None:
        return f"its co-runner {named} already has one"
    if not (request.shareable and co_runner.request.shareable):
        return f"it and {named} must both be shareable"
    same = set(co_runner.allocation.nodes) == set(decision.node_indices)
    if co_runner.machine is not machine or not same:
        return f"it must share the whole node set of {named}"
    return None

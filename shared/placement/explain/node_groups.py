"""The nodes of a cluster, grouped by state, in the words of Slurm's sinfo."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from coplace.v1.placement_service_pb2 import (
    NODE_STATE_ALLOCATED,
    NODE_STATE_BOOTING,
    NODE_STATE_DRAINED,
    NODE_STATE_DRAINING,
    NODE_STATE_IDLE,
    NODE_STATE_MIXED,
    NODE_STATE_OFF,
    NodeGroup,
    NodeState,
)

from shared.domain.folding import fold
from shared.domain.node import NodeNames
from shared.placement.state.node_states import Drain
from shared.placement.state.occupancy import Occupancy

# An answer has so many groups, and of each so many jobs.
MOST_GROUPS: Final = 4_096
_MOST_JOBS: Final = 32


class _Alike(NamedTuple):
    """What nodes of one group have in common."""

    state: NodeState.ValueType
    jobs: tuple[str, ...]
    drain: Drain | None
    also_by: tuple[str, ...] = ()


def node_groups(
    cluster: str, names: NodeNames, held: Occupancy, drained: Mapping[int, Sequence[Drain]]
) -> list[NodeGroup]:
    """Return the groups of a cluster, by their first nodes."""
    jobs = held.job_ids_by_node()
    alike: dict[_Alike, list[int]] = defaultdict(list)
    for node in range(held.nodes):
        drains = drained.get(node)
        drain = max(drains, key=lambda each: each.until_s) if drains else None
        also_by = tuple(sorted({each.by for each in drains or () if drain and each.by != drain.by}))
        alike[_Alike(_state(held, node, drain), jobs.get(node, ()), drain, also_by)].append(node)
    found = sorted(alike.items(), key=lambda each: each[1][0])
    return [_group(cluster, names, *each) for each in found]


def _state(held: Occupancy, node: int, drain: Drain | None) -> NodeState.ValueType:
    is_idle = not held.capacity.holders[node]
    if drain is not None:
        return NODE_STATE_DRAINED if is_idle else NODE_STATE_DRAINING
    if node in held.power.not_on:
        return NODE_STATE_BOOTING if node in held.power.booting else NODE_STATE_OFF
    if is_idle:
        return NODE_STATE_IDLE
    is_full = held.capacity.closed[node] or held.capacity.free[0][node] <= 0
    return NODE_STATE_ALLOCATED if is_full else NODE_STATE_MIXED


def _group(cluster: str, names: NodeNames, alike: _Alike, nodes: Sequence[int]) -> NodeGroup:
    found = NodeGroup(
        cluster=cluster,
        nodes=fold(map(names.name, nodes)),
        count=len(nodes),
        state=alike.state,
        job_ids=alike.jobs[:_MOST_JOBS],
        jobs_left_out=len(alike.jobs[_MOST_JOBS:]),
    )
    drain = alike.drain
    if drain is not None:
        found.reason, found.drained_by = drain.reason, drain.by
        found.also_drained_by.extend(alike.also_by)
        found.drained_at_us = round(drain.since_s * 1e6)
        found.until_us = round(drain.until_s * 1e6) if drain.until_s < inf else 0
    return found

"""What the jobs of one cluster hold of its nodes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.domain.cluster import Cluster
from shared.domain.job import Job, jobs_of_parts
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord
from shared.placement.state.limits import Usage, usage_in_partitions, usage_of
from shared.placement.state.node_power import ALL_ON
from shared.scheduling.capacity import AllocatedUnits, Capacity, remove_member
from shared.scheduling.easy import holder_of
from shared.scheduling.eligibility import NOTHING_REFUSED, NodeBits, RefusedToJob
from shared.scheduling.load import Load, NodeSet
from shared.scheduling.node_states import KnownStates
from shared.scheduling.problem import (
    Allocation,
    Kind,
    NodeTable,
    Shape,
    counts_nodes,
    held_kind,
    kind_on,
    most_of,
    most_of_gang,
    whole_of,
)
from shared.scheduling.sharing import Neighbours

_MOST_GROUPS: Final = 10_000


class Occupancy:
    """Allocations of one cluster. A resource manager may give out what we gave away: a node is free
    again when all its holders have left."""

    def __init__(self, cluster: Cluster) -> None:
        self._stays: dict[int, JobRecord] = {}
        self._held: dict[int, AllocatedUnits] = {}
        self._in_parts: set[int] = set()
        self._told_factors: Mapping[int, float] = {}
        self.unavailable: Mapping[int, float] = {}
        self.power = ALL_ON
        """Which nodes are off or boot: they are given away behind those that are on."""
        self.declare(cluster)

    def declare(self, cluster: Cluster) -> None:
        """Take a cluster as it is declared now: its jobs hold what is left of their nodes."""
        self._cluster = cluster
        there = {n: back_s for n, back_s in self.unavailable.items() if n < cluster.nodes}
        self.close(there)
        self.capacity = Capacity(NodeTable.build(cluster))
        self._states: KnownStates | None = None
        stays, self._stays, self._held = self._stays, {}, {}
        self._in_parts.clear()
        for job in stays.values():
            self.hold(job)
        self.prefer(self._told_factors)

    def forget_groups(self) -> None:
        """Renumber groups of jobs on one node, where many more numbers exist than can be in use."""
        if len(self.capacity.groups) > _MOST_GROUPS + 2 * self.nodes:
            self.declare(self._cluster)

    def prefer(self, factors: Mapping[int, float]) -> None:
        """Set what nodes draw against the mean node: those that draw less are given away first."""
        self._told_factors = factors
        self.factors: NDArray[np.float64] = np.ones(self.nodes)
        known = [node for node in factors if node < self.nodes]
        self.factors[known] = [factors[node] for node in known]
        self._is_even = not len(self.factors) or bool((self.factors == self.factors[0]).all())

    def close(self, unavailable: Mapping[int, float]) -> None:
        """Close nodes until these times, by index; infinite: until a resumption. What runs there
        goes on."""
        self.unavailable = unavailable
        self._most: dict[Kind, int] = {}
        self._is_open = [node not in unavailable for node in range(self.nodes)]
        self.never = sorted(node for node, back_s in unavailable.items() if back_s == inf)

    def most_units(self, job: Job, refused: RefusedToJob = NOTHING_REFUSED) -> int:
        """Return how many units of a job fit when nothing runs, but on nodes that never return,
        that were refused it, or whose partition is down."""
        kind = kind_on(job, self._cluster, self.names, refused)
        if kind is None:
            return 0
        if kind not in self._most:
            self._most[kind] = self._most_when_empty(kind.shape)
        return self._most[kind]

    def _most_when_empty(self, shape: Shape) -> int:
        if shape.parts:
            amounts = self.capacity.table.amounts.copy()
            amounts[:, self.never] = 0
            return most_of_gang(shape, amounts)
        fitting = self.capacity.table.fitting(shape)
        fitting[self.never] = 0
        return most_of(fitting, shape.where)

    def available(self, number: int, *, apart: bool) -> tuple[Capacity, list[AllocatedUnits]]:
        """Return what is free for a pass, and what is held of it: by jobs, and by drains that end.
        The cluster is the pass's `number`; `apart` makes the copy separate, see Capacity."""
        capacity, held = self.capacity.copy(is_separate=apart), self.held
        if not self.unavailable:
            return capacity, held
        capacity.lack(self.never)
        kind = whole_of(self._cluster, len(self.names))
        for place, (back_s, nodes) in enumerate(self.coming_back()):
            allocation = Allocation(tuple(nodes), (1,) * len(nodes))
            held.append(AllocatedUnits(back_s, holder_of(number, place), kind, allocation))
            capacity.take(kind, allocation)
        return capacity, held

    def states(self, neighbours: Neighbours) -> KnownStates:
        """Return what fits on nodes in which states, kept from pass to pass for the same rule of
        neighbours."""
        known = self._states
        if known is None or known.neighbours is not neighbours or known.is_full:
            known = self._states = KnownStates(neighbours, self.capacity.groups)
        return known

    def coming_back(self) -> list[tuple[float, list[int]]]:
        """Return when drains end, with their nodes, ascending."""
        found: dict[float, list[int]] = defaultdict(list)
        for node, back_s in sorted(self.unavailable.items()):
            if back_s < inf:
                found[back_s].append(node)
        return sorted(found.items())

    def hold(self, job: JobRecord) -> None:
        """Allocate to a job the nodes that it was placed on."""
        assert job.run.allocation is not None
        allocation = self._allocation(job.run.allocation)
        # All of its nodes where the cluster has no more what it needs.
        kind = held_kind(job.job, self._cluster, self.names, allocation.nodes)
        run = job.run
        held = AllocatedUnits(run.releases_s, job.arrival, kind, allocation, run.drawn_mw)
        self._stays[job.arrival], self._held[job.arrival] = job, held
        self.capacity.take(held.kind, held.allocation)
        if not counts_nodes(job.job, held.kind, self._cluster):
            self._in_parts.add(job.arrival)

    def prolong(self, job: JobRecord) -> None:
        """Let a job hold its nodes until another time: it counts as the last that got any."""
        self._held[job.arrival] = self._held.pop(job.arrival)
        self.refresh(job)

    def refresh(self, job: JobRecord) -> None:
        """Update what a job draws, and until when it has its nodes."""
        held = self._held[job.arrival]
        held = held._replace(draw_mw=job.run.drawn_mw, release_s=job.run.releases_s)
        self._held[job.arrival] = held

    def expect(self, job: JobRecord, release_s: float) -> None:
        """Set when a suspended job is expected to give its nodes back; infinite: never."""
        self._held[job.arrival] = self._held[job.arrival]._replace(release_s=release_s)

    def release(self, job: JobRecord) -> None:
        """Release the nodes of a job."""
        held = self._held.pop(job.arrival)
        del self._stays[job.arrival]
        self.capacity.give(held.kind, held.allocation)
        self._in_parts.discard(job.arrival)

    @property
    def nodes(self) -> int:
        """Return how many nodes the cluster has."""
        return self._cluster.nodes

    @property
    def names(self) -> Sequence[str]:
        """Return the names of a node's resources."""
        return self.capacity.table.names

    @property
    def free(self) -> int:
        """Return how many nodes take jobs and nobody holds anything of."""
        return len(self.free_nodes())

    def free_nodes(self) -> list[int]:
        """Return the nodes that take jobs and nobody holds anything of."""
        holders, is_open = self.capacity.holders, self._is_open
        return [node for node in range(len(holders)) if not holders[node] and is_open[node]]

    @property
    def is_in_parts(self) -> bool:
        """Return whether a job runs that has only part of its nodes, or does not take all alike."""
        return bool(self._in_parts)

    @property
    def held(self) -> list[AllocatedUnits]:
        """Return what each job holds."""
        return list(self._held.values())

    @property
    def load(self) -> Load:
        """Return what each job holds in whole nodes; drains that end hold nodes too, other drained
        nodes are not there."""
        held = self._held.values()
        if not self.unavailable:
            sets = [NodeSet(len(h.allocation.nodes), h.release_s, draw_mw=h.draw_mw) for h in held]
            return Load(self.nodes, self.free, sets)
        sets = [node_set for each in held for node_set in self._sets_of(each)]
        for back_s, nodes in self.coming_back():
            sets.append(NodeSet(self.idle(nodes), back_s))
        return Load(self.nodes - len(self.never), self.free, sets)

    def holders(self, number: int) -> Iterator[tuple[int, int]]:
        """Yield what the scheduler of this number calls the nodes of each job in `load`, and the
        arrival number of that job."""
        place = 0
        for each in self._held.values():
            yield holder_of(number, place), each.holder
            place += len(list(self._sets_of(each))) if self.unavailable else 1

    def _sets_of(self, held: AllocatedUnits) -> Iterator[NodeSet]:
        """Yield the nodes of a job by when others may have them."""
        backs_s = [self.unavailable.get(node, -inf) for node in held.allocation.nodes]
        counts = Counter(max(back_s, held.release_s) for back_s in backs_s if back_s < inf)
        yield NodeSet(counts.pop(held.release_s, 0), held.release_s, draw_mw=held.draw_mw)
        yield from (NodeSet(count, back_s) for back_s, count in sorted(counts.items()))

    @property
    def drawn_mw(self) -> int:
        """Return what the jobs draw beyond idle, as predicted."""
        return sum(held.draw_mw for held in self._held.values())

    def best_free(self, count: int) -> tuple[int, ...]:
        """Return the `count` free nodes that draw least, ties by index, ascending by index, of
        those that are on before others; fewer when there are not as many."""
        free = self.free_nodes()
        if not self._is_even:
            free = np.array(free)[self.factors[free].argsort(kind="stable")].tolist()
        if self.power.not_on:
            free.sort(key=self.power.level)
        return tuple(sorted(free[:count]))

    def free_from(self, unavailable: Mapping[int, float]) -> dict[int, float]:
        """Return when nodes are expected to be free that are not now: of jobs, by their own limits,
        and of drains, as these say."""
        found = dict(unavailable)
        for arrival, held in self._held.items():
            release_s = self._stays[arrival].run.releases_s
            for node in held.allocation.nodes:
                found[node] = max(release_s, found.get(node, -inf))
        return found

    def allocated(self, nodes: NodeBits) -> int:
        """Return on how many nodes of a set jobs have something."""
        holders = self.capacity.holders
        return sum([(nodes >> node) & 1 and holders[node] > 0 for node in range(len(holders))])

    def idle(self, nodes: Iterable[int]) -> int:
        """Return how many of these nodes nobody holds anything of."""
        return sum([not self.capacity.holders[node] for node in nodes])

    @property
    def site(self) -> str:
        """Return the site that the cluster is of."""
        return self._cluster.site

    def usage(self, job: JobRecord) -> Usage:
        """Return what a job holds, as limits count it."""
        assert job.run.allocation is not None
        return usage_of(job.job, self._cluster, sum(self._units(job.run.allocation)))

    def usage_in_partitions(self, job: JobRecord) -> Mapping[str, Usage]:
        """Return what a job holds in each partition that it runs in: of a gang what its parts there
        hold."""
        assert job.run.allocation is not None
        partitions = job.run.allocation.partitions
        if not any(partitions):
            return {}
        if not job.job.parts:
            return {partitions[0]: self.usage(job)}
        parts = zip(partitions, jobs_of_parts(job.job), strict=True)
        named = [((name,), part, part.nodes) for name, part in parts if name]
        return usage_in_partitions(named, self._cluster)

    def job_ids_by_node(self) -> dict[int, tuple[str, ...]]:
        """Return the jobs that have something of each node, by arrival, without idle nodes."""
        found: dict[int, list[str]] = defaultdict(list)
        for arrival, held in sorted(self._held.items()):
            for node in held.allocation.nodes:
                found[node].append(self._stays[arrival].job.job_id)
        return {node: tuple(job_ids) for node, job_ids in found.items()}

    def others(self, job: JobRecord) -> list[JobRecord]:
        """Return the other jobs that have part of a job's nodes, by arrival."""
        nodes = self._held[job.arrival].allocation.nodes
        if not self.capacity.is_shared(nodes):
            return []
        mine, first, last = set(nodes), nodes[0], nodes[-1]
        found: list[int] = []
        for arrival, held in self._held.items():
            theirs = held.allocation.nodes
            is_near = theirs and theirs[0] <= last and first <= theirs[-1]
            if is_near and not mine.isdisjoint(theirs):
                found.append(arrival)
        return [self._stays[arrival] for arrival in sorted(found) if arrival != job.arrival]

    def slowdown(self, job: JobRecord, neighbours: Neighbours) -> float:
        """Predict T_co / T_solo of a job: the largest of its nodes."""
        held = self._held[job.arrival]
        millicores, found = held.kind.shape.millicores, {1.0}
        groups = [self.capacity.group[node] for node in held.allocation.nodes]
        for number, units in set(zip(groups, held.allocation.units, strict=True)):
            me, group = (held.kind.app, units * millicores), self.capacity.groups.by_number[number]
            if me in group:
                found.add(neighbours.slowdown(me, remove_member(group, me)))
        return max(found)

    def has_too_much(self, job: JobRecord) -> bool:
        """Return whether more was given out on one of a job's nodes than there is, or another job
        is beside one that is to be alone."""
        return self.capacity.is_overcommitted(self._held[job.arrival].allocation.nodes)

    def _units(self, placed: JobAllocation) -> tuple[int, ...]:
        return placed.units or (1,) * len(placed.nodes)

    def _allocation(self, placed: JobAllocation) -> Allocation:
        """Return the nodes of a job that the cluster still has."""
        if not placed.nodes or placed.nodes[-1] < self.nodes:
            return Allocation(placed.nodes, self._units(placed))
        held = zip(placed.nodes, self._units(placed), strict=True)
        there = [(node, count) for node, count in held if node < self.nodes]
        return Allocation(tuple(node for node, _ in there), tuple(count for _, count in there))

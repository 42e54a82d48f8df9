"""What a run is reserved for when it starts: its whole walltime limit, in full, without energy."""

from decimal import Decimal
from typing import Final, NamedTuple

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobStarted, JobSubmitted

from coplace_client.bounds import NODE_POWER_W
from coplace_client.errors import RejectedError
from coplace_client.millicores import exact_cores, millicores
from shared.catalogue.payloads.domain_types import asked_memory_gib, asked_resources, cluster_of
from shared.domain.money import micro_units, service_units
from shared.domain.tariff import CORE, GIB, PriceTariff, RateScope
from shared.pricing.rating import full_su
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.rows import RowCodec
from shared.streams.state.state import State

# As much as one charge can be.
_MOST_MICRO_SU: Final = 10**18


class DeclaredCores(NamedTuple):
    """Cores of a node of a cluster, and when they were declared; what a node draws at most, W, 0
    where nobody says."""

    cores_per_node: int
    declared_at_us: int
    most_node_w: float = 0.0


# The version before did not know what a node draws at most.
_CORES: Final = RowCodec(DeclaredCores, version=2, previous=RowCodec(DeclaredCores).decode)


class NodeCores:
    """The cores of a node of each cluster, and what it draws at most, as declared last."""

    def __init__(self, state: State) -> None:
        self._cores = state.table("cores", _CORES)

    def declare(self, message: ClusterDeclared, time_us: int) -> None:
        """Raises AlreadyAppliedError for what is not newer than what is known."""
        known = self._cores.get(message.cluster)
        if known is not None and time_us <= known.declared_at_us:
            raise AlreadyAppliedError
        found = DeclaredCores(message.cores_per_node, time_us, _most_node_w(message))
        self._cores.put(message.cluster, found)

    def of(self, cluster: str) -> int:
        """Return the cores of a node of a cluster; 0 where it was never declared."""
        return self._cores[cluster].cores_per_node if cluster in self._cores else 0

    def most_node_w(self, cluster: str) -> float:
        """Return what a node of a cluster draws at most, W; as much as any node where nobody says
        it."""
        known = self._cores.get(cluster)
        return (known.most_node_w if known else 0.0) or NODE_POWER_W.most


def _most_node_w(message: ClusterDeclared) -> float:
    """Return what a node draws at most, W; 0 where placement refuses the declaration."""
    try:
        return cluster_of(message).most_node_w
    except RejectedError:
        return 0.0


def reserved_micro_su(
    submitted: JobSubmitted, started: JobStarted, cores: NodeCores, terms: Decimal | PriceTariff
) -> int:
    """Return the reservation for a run, 0.000001 SU. Units that are nodes count as whole ones."""
    units, walltime_us = submitted.nodes, round(submitted.walltime_s * 1e6)
    of_unit = submitted.cores_per_unit or cores.of(started.cluster)
    held_cores = exact_cores(units * millicores(of_unit, submitted.millicores_per_unit))
    if isinstance(terms, Decimal):
        in_full = service_units(terms * held_cores * walltime_us / 1_000_000)
    else:
        until_us = started.started_at_us + walltime_us
        scope = RateScope(cluster=started.cluster)
        held = _held(submitted, held_cores)
        in_full = full_su(terms, held, scope, started.started_at_us, until_us)
    return min(micro_units(in_full), _MOST_MICRO_SU)


def _held(submitted: JobSubmitted, cores: Decimal) -> dict[str, Decimal]:
    units = submitted.nodes
    memory_gib = asked_memory_gib(submitted, units)
    others = {name: Decimal(n) for name, n in asked_resources(submitted, units).items()}
    memory = {GIB: Decimal(repr(memory_gib))} if memory_gib else {}
    return {**others, **memory, CORE: cores}

"""What a run is reserved for when it starts: its whole walltime limit, in full, without energy."""

from decimal import Decimal
from typing import Final, NamedTuple

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobStarted, JobSubmitted

from services.pricing.rating import full_su
from shared.domain.money import micro_units, service_units
from shared.domain.tariff import CORE, GIB, PriceTariff, RateScope
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.state import State

# As much as one charge can be.
_MOST_MICRO_SU: Final = 10**18


class DeclaredCores(NamedTuple):
    """Cores of a node of a cluster, and when they were declared."""

    cores_per_node: int
    declared_at_us: int


class NodeCores:
    """The cores of a node of each cluster, as declared last."""

    def __init__(self, state: State) -> None:
        self._cores = state.table("cores", DeclaredCores)

    def declare(self, message: ClusterDeclared, time_us: int) -> None:
        """Raises AlreadyAppliedError for what is not newer than what is known."""
        known = self._cores.get(message.cluster)
        if known is not None and time_us <= known.declared_at_us:
            raise AlreadyAppliedError
        self._cores.put(message.cluster, DeclaredCores(message.cores_per_node, time_us))

    def of(self, cluster: str) -> int:
        """Return the cores of a node of a cluster; 0 where it was never declared."""
        return self._cores[cluster].cores_per_node if cluster in self._cores else 0


def reserved_micro_su(
    submitted: JobSubmitted, started: JobStarted, cores: NodeCores, terms: Decimal | PriceTariff
) -> int:
    """Return the reservation for a run, 0.000001 SU. Units that are nodes count as whole ones."""
    units, walltime_us = submitted.nodes, round(submitted.walltime_s * 1e6)
    held_cores = units * (submitted.cores_per_unit or cores.of(started.cluster))
    if isinstance(terms, Decimal):
        in_full = service_units(terms * held_cores * walltime_us / 1_000_000)
    else:
        until_us = started.started_at_us + walltime_us
        scope = RateScope(cluster=started.cluster)
        held = _held(submitted, held_cores)
        in_full = full_su(terms, held, scope, started.started_at_us, until_us)
    return min(micro_units(in_full), _MOST_MICRO_SU)


def _held(submitted: JobSubmitted, cores: int) -> dict[str, Decimal]:
    units = submitted.nodes
    memory_gib = submitted.memory_gib or units * submitted.memory_gib_per_unit
    others = {name: Decimal(units * n) for name, n in submitted.resources_per_unit.items()}
    memory = {GIB: Decimal(repr(memory_gib))} if memory_gib else {}
    return {**others, **memory, CORE: Decimal(cores)}

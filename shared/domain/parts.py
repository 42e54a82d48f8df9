"""Parts of a heterogeneous job, a gang: they start together or not at all, each on nodes of its
own."""

from collections.abc import Iterable
from dataclasses import dataclass

from coplace_client.bounds import LENGTHS, QUANTITIES
from coplace_client.errors import RejectedError
from coplace_client.millicores import millicores, require_rounded
from shared.domain.resources import Resources, require_resources, resources_of


@dataclass(frozen=True, slots=True)
class JobPart:
    """Equal units, `units_per_node` of them on each of its nodes, the rest on the last one. Raises
    RejectedError on construction.

    A node that it takes has as many cores, as much memory and of each resource as these units need
    together. Where it may be is said as by a job.
    """

    units: int
    units_per_node: int = 1
    cores_per_unit: int = 0
    memory_gib_per_unit: float = 0.0
    resources_per_unit: Resources = ()
    partitions: tuple[str, ...] = ()
    features: str = ""
    nodes_wanted: tuple[str, ...] = ()
    nodes_excluded: tuple[str, ...] = ()
    millicores_per_unit: int = 0

    def __post_init__(self) -> None:
        for field in ("units", "units_per_node"):
            QUANTITIES[field].require(field, getattr(self, field))
        for field in ("cores_per_unit", "memory_gib_per_unit"):
            QUANTITIES[field].require_if_known(field, getattr(self, field))
        if self.millicores_per_unit:
            require_millicores(self.cores_per_unit, self.millicores_per_unit)
        require_resources("resources_per_unit", self.resources_per_unit)

    @property
    def nodes(self) -> int:
        """Return how many nodes it takes."""
        return -(-self.units // self.units_per_node)

    @property
    def most_on_a_node(self) -> int:
        """Return how many units are on each of its nodes but the last."""
        return min(self.units, self.units_per_node)

    @property
    def millicores_per_node(self) -> int:
        """Return how many thousandths of a core each of its nodes has at least; 0 where any do."""
        return self.most_on_a_node * millicores(self.cores_per_unit, self.millicores_per_unit)

    @property
    def memory_gib_per_node(self) -> float:
        """Return what memory each of its nodes has at least, GiB; 0 where any do."""
        return self.most_on_a_node * self.memory_gib_per_unit

    @property
    def resources_per_node(self) -> Resources:
        """Return what else each of its nodes has at least."""
        return tuple((name, self.most_on_a_node * n) for name, n in self.resources_per_unit)

    @property
    def has_wishes(self) -> bool:
        """Return whether not all nodes of a cluster are the same to it."""
        return bool(self.partitions or self.features or self.nodes_wanted or self.nodes_excluded)


def require_millicores(cores_per_unit: int, millicores_per_unit: int) -> None:
    """Raise RejectedError for thousandths of a core that no unit has."""
    QUANTITIES["millicores_per_unit"].require("millicores_per_unit", millicores_per_unit)
    require_rounded("cores_per_unit", cores_per_unit, millicores_per_unit)


def require_parts(parts: tuple[JobPart, ...], nodes: int) -> None:
    """Raise RejectedError unless the nodes of parts add up."""
    LENGTHS["parts"].require("parts", len(parts))
    total = sum(part.nodes for part in parts)
    if total != nodes:
        raise RejectedError("nodes", f"must be {total} as those of its parts, got {nodes}")


def asked_in_all(parts: tuple[JobPart, ...], per_unit: Resources, units: int) -> Resources:
    """Return what so many units ask for beside cores and memory: of a gang all its parts."""
    if parts:
        return total_resources(parts)
    return tuple((name, count * units) for name, count in per_unit)


def total_resources(parts: Iterable[JobPart]) -> Resources:
    """Return the resources of all units of parts."""
    counts: dict[str, int] = {}
    for part in parts:
        for name, count in part.resources_per_unit:
            counts[name] = counts.get(name, 0) + part.units * count
    return resources_of(counts)

"""What the units of a job take of the nodes that they are on."""

from collections.abc import Iterable
from dataclasses import dataclass

from coplace_client.millicores import cores_text, millicores
from lab.workloads.request import JobRequest
from shared.domain.cluster import Cluster, NodeClass
from shared.domain.resources import Resources, resources_of


@dataclass(frozen=True, slots=True)
class Share:
    """Part of a node; memory in GiB."""

    millicores: int = 0
    memory_gib: float = 0.0
    resources: Resources = ()

    def times(self, units: int) -> "Share":
        """Return the share of several units."""
        resources = tuple((name, count * units) for name, count in self.resources)
        return Share(self.millicores * units, self.memory_gib * units, resources)


def together(shares: Iterable[Share]) -> Share:
    """Return the sum of several shares."""
    millicores, memory_gib, resources = 0, 0.0, dict[str, int]()
    for share in shares:
        millicores += share.millicores
        memory_gib += share.memory_gib
        for name, count in share.resources:
            resources[name] = resources.get(name, 0) + count
    return Share(millicores, memory_gib, resources_of(resources))


def unit_on(request: JobRequest, cluster: Cluster) -> Share:
    """Return what a unit takes: its cores, and what it asks for beside them. Half a node that asks
    for no memory takes half of what all nodes have."""
    memory_gib = request.memory_gib_per_unit
    if not memory_gib and request.shareable and not request.cores_per_unit:
        memory_gib = min(each.memory_gib for each in cluster.node_classes) / 2
    return Share(millicores_of_unit(request, cluster), memory_gib, request.resources_per_unit)


def millicores_of_unit(request: JobRequest, cluster: Cluster) -> int:
    """Return the thousandths of a core of each unit there."""
    return request.unit_millicores or millicores(cluster.cores_for(shareable=request.shareable))


def most_units_a_node(request: JobRequest) -> int | None:
    """Return how many units may be on one node; None where only its size limits them."""
    return (request.units_per_node or None) if request.cores_per_unit else 1


def lacks(node: Share, cluster: Cluster, node_class: NodeClass) -> str | None:
    """Return what a node of this class has less of than is taken of it, in words; None where it has
    enough. Memory that nobody declared is enough."""
    if node.millicores > cluster.millicores_per_node:
        return f"{cores_text(node.millicores)} cores of {cluster.cores_per_node}"
    if node.memory_gib > node_class.memory_gib > 0:
        return f"{node.memory_gib:g} GiB of {node_class.memory_gib:g}"
    has = dict(node_class.resources)
    for name, count in node.resources:
        if count > has.get(name, 0):
            return f"{count} {name} of {has.get(name, 0)}"
    return None


def units_that_fit(request: JobRequest, cluster: Cluster) -> int:
    """Return how many units of the job fit on an empty cluster."""
    return sum(
        each.nodes * _units_on_a_node(request, cluster, each) for each in cluster.node_classes
    )


def _units_on_a_node(request: JobRequest, cluster: Cluster, node_class: NodeClass) -> int:
    unit = unit_on(request, cluster)
    by_cores = cluster.millicores_per_node // unit.millicores
    units = min(by_cores, most_units_a_node(request) or by_cores)
    while units and lacks(unit.times(units), cluster, node_class):
        units -= 1
    return units

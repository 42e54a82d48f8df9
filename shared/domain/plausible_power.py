"""Which powers nodes of a cluster can draw, by what it declares: a meter that died goes on to show
0 W, and counters wrap."""

from typing import Final

from coplace_client.bounds import NODE_POWER_W
from shared.domain.cluster import Cluster

# Nodes differ, and so do meters: of idle power a node that is in use draws at least so much, and of
# its nameplate power none more than so much.
_LEAST_OF_IDLE: Final = 0.5
_MOST_OF_NAMEPLATE: Final = 1.5


def is_plausible(cluster: Cluster, node_w: float, *, in_use: bool) -> bool:
    """Return whether a node of a cluster can draw so much, W; one that is not in use may be off."""
    most_w = _MOST_OF_NAMEPLATE * cluster.most_node_w or NODE_POWER_W.most
    least_w = _LEAST_OF_IDLE * cluster.idle_power_w if in_use else 0.0
    return least_w <= node_w <= most_w


def can_have_drawn(cluster: Cluster, node_w: float, *, in_use: bool) -> bool:
    """Return whether nodes of a cluster can have drawn so much, W, on the mean over a run: no more
    than their nameplate power, and no less than what idles where the run had them for itself."""
    most_w = cluster.most_node_w or NODE_POWER_W.most
    return node_w <= most_w and is_plausible(cluster, node_w, in_use=in_use)


def most_energy_j(node_w: float, nodes: int, run_s: float) -> float:
    """Return the energy of nodes, J, that draw at most so much, W, for a time."""
    return node_w * nodes * run_s

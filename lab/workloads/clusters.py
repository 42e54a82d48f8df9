"""The emulated clusters, as their operators declare them."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from lab.workloads.parts import GPU
from lab.workloads.table1 import GOLD_6254, NODE_MODELS, PLATINUM_8168
from shared.domain.cluster import EMULATED_SITE, Cluster, NodeClass

GPU_NODES: Final = 64
GPUS_A_NODE: Final = 2
NODES: Final = 512
# Of a node without a job.
IDLE_POWER_W: Final[Mapping[str, float]] = MappingProxyType(
    {PLATINUM_8168.name: 110.0, GOLD_6254.name: 105.0}
)
# Six channels a socket of DDR4-2666 (Platinum 8168) and DDR4-2933 (Gold 6254), two sockets: Intel's
# figures for the processors.
PEAK_BANDWIDTH_GBPS: Final[Mapping[str, float]] = MappingProxyType(
    {PLATINUM_8168.name: 256.0, GOLD_6254.name: 281.6}
)
# Two sockets each, by Intel's figures for the processors: 205 W and 200 W.
PROCESSORS_TDP_W: Final[Mapping[str, float]] = MappingProxyType(
    {PLATINUM_8168.name: 410.0, GOLD_6254.name: 400.0}
)


def clusters(
    nodes: int = NODES, gpu_nodes: int = 0, nameplate_power_w: float = 0.0
) -> tuple[Cluster, ...]:
    """Return one cluster of `nodes` nodes of each node model: p1 and p2 of the EAMC paper. The last
    `gpu_nodes` of the first have two GPUs each, which no source has there: they draw nothing.
    `nameplate_power_w` is what operators declare as the most that a node draws; 0: it follows from
    the processors, where there are no GPUs."""
    return tuple(
        Cluster(
            name=model.partition,
            site=EMULATED_SITE,
            node_model=model.name,
            nodes=nodes,
            cores_per_node=model.cores,
            pstates_ghz=model.pstates_ghz,
            idle_power_w=IDLE_POWER_W[model.name],
            peak_bandwidth_gbps=PEAK_BANDWIDTH_GBPS[model.name],
            nameplate_power_w=nameplate_power_w,
            processors_tdp_w=PROCESSORS_TDP_W[model.name],
            declared_classes=_classes(nodes, gpu_nodes) if model is PLATINUM_8168 else (),
        )
        for model in NODE_MODELS.values()
    )


def rated(cluster: Cluster) -> Cluster:
    """Return a cluster that says what its nodes draw at most: its GPUs draw nothing."""
    if cluster.most_node_w:
        return cluster
    most_w = cluster.idle_power_w + cluster.processors_tdp_w
    return replace(cluster, nameplate_power_w=most_w)


def _classes(nodes: int, gpu_nodes: int) -> tuple[NodeClass, ...]:
    """None where all are alike."""
    if not gpu_nodes:
        return ()
    return NodeClass(nodes - gpu_nodes), NodeClass(gpu_nodes, resources=((GPU, GPUS_A_NODE),))

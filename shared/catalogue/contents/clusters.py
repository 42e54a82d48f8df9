"""What each field of a fact about a cluster and its nodes must be."""

from collections.abc import Mapping
from typing import Final

from coplace.v1.control_pb2 import (
    ClusterDeclared,
    ClusterLost,
    ClusterReturned,
    ClusterUndeclared,
    NodesDrained,
    NodesResumed,
)
from google.protobuf.message import Message

from coplace_client.bounds import LENGTHS, TDP_W
from shared.catalogue.field_checks import (
    Check,
    anything,
    ascending,
    each,
    each_of_any,
    fields,
    host_list,
    if_known,
    quantity,
    resources,
    text,
    text_or_empty,
    time_us,
    time_us_or_never,
)
from shared.domain.hostlist import expand


def _design_powers(by_name: Mapping[str, float]) -> None:
    """The domain asks whether the same nodes have such resources."""
    LENGTHS["resources"].require("", len(by_name))
    for name, tdp_w in by_name.items():
        text(name)
        TDP_W.require("", tdp_w)


_NODE_CLASS: Final = fields(
    {
        "nodes": quantity("nodes"),
        "memory_gib": if_known("memory_gib_per_node"),
        "resources": resources,
        "tdp_w": _design_powers,
    }
)


def _host_lists(message: NodesDrained | NodesResumed) -> None:
    """Lists that can be expanded: of the names only placement knows which there are."""
    for hosts in message.nodes:
        expand(hosts)


CLUSTERS: Final[Mapping[type[Message], Check]] = {
    ClusterDeclared: fields(
        {
            "cluster": text,
            "site": text,
            "node_model": text,
            "nodes": quantity("nodes"),
            "cores_per_node": quantity("cores_per_node"),
            "pstates_ghz": each("pstates_ghz", quantity("pstates_ghz")),
            "idle_power_w": quantity("idle_power_w"),
            "peak_bandwidth_gbps": quantity("peak_bandwidth_gbps"),
            "memory_gib_per_node": if_known("memory_gib_per_node"),
            "architecture": text_or_empty,
            "node_names": each_of_any("node_names", anything),
            "node_classes": each_of_any("node_classes", _NODE_CLASS),
            "nameplate_power_w": if_known("nameplate_power_w"),
        }
    ),
    ClusterLost: fields({"cluster": text, "reason": text_or_empty, "lost_at_us": time_us}),
    ClusterReturned: fields({"cluster": text, "returned_at_us": time_us}),
    ClusterUndeclared: fields({"cluster": text, "reason": text, "undeclared_at_us": time_us}),
    NodesDrained: fields(
        {
            "cluster": text,
            "nodes": each_of_any("nodes", host_list),
            "reason": text,
            "until_us": time_us_or_never,
            "drained_at_us": time_us,
        },
        ascending("drained_at_us", "until_us"),
        _host_lists,
    ),
    NodesResumed: fields(
        {
            "cluster": text,
            "nodes": each_of_any("nodes", host_list),
            "reason": text_or_empty,
            "resumed_at_us": time_us,
        },
        _host_lists,
    ),
}

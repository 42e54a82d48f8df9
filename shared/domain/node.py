"""Nodes: their names, which all sides derive alike from a cluster and an index."""

from shared.domain.errors import RejectedError


def node_name(cluster: str, index: int) -> str:
    """The name of a cluster's node, counted from 0: `{cluster}-{index:04d}`."""
    return f"{cluster}-{index:04d}"


def node_index(cluster: str, name: str) -> int:
    """The index in a node's name. Raises RejectedError for a name that is not of the cluster."""
    prefix, _, digits = name.rpartition("-")
    if prefix != cluster or not (digits.isascii() and digits.isdigit()):
        raise RejectedError(
            "nodes", f"{name[:80]!r} is no node of {cluster}: name-0000 is expected"
        )
    return int(digits)

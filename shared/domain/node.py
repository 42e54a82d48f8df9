"""Nodes: their names, which all sides derive alike from a cluster and an index."""

import re
from typing import Final

from shared.domain.errors import RejectedError

# More than any cluster has: who counts nodes keeps a place for each of them.
MOST_NODES: Final = 100_000
_INDEX: Final = re.compile("[0-9]{1,5}")


def node_name(cluster: str, index: int) -> str:
    """The name of a cluster's node, counted from 0: `{cluster}-{index:04d}`."""
    return f"{cluster}-{index:04d}"


def node_index(cluster: str, name: str) -> int:
    """The index in a node's name, below MOST_NODES. Raises RejectedError for any other name."""
    prefix, _, digits = name.rpartition("-")
    if prefix != cluster or not _INDEX.fullmatch(digits):
        raise RejectedError(
            "nodes", f"{name[:80]!r} is no node of {cluster}: name-0000 is expected"
        )
    return int(digits)

"""Nodes: their names, which all sides derive alike from a cluster and an index."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from coplace_client.errors import RejectedError
from shared.domain.hostlist import expand

_INDEX: Final = re.compile("[0-9]{1,5}")


def node_name(cluster: str, index: int) -> str:
    """Return the name of a cluster's node, counted from 0: `{cluster}-{index:04d}`."""
    return f"{cluster}-{index:04d}"


def node_index(cluster: str, name: str) -> int:
    """Parse the index in a node's name, below 100,000. Raises RejectedError for any other name."""
    prefix, _, digits = name.rpartition("-")
    if prefix != cluster or not _INDEX.fullmatch(digits):
        raise RejectedError(
            "nodes", f"{name[:80]!r} is not a node of {cluster}: name-0000 is expected"
        )
    return int(digits)


class NodeNames:
    """The nodes of a cluster by name and index: as declared in host lists, or else `node_name`.

    Raises RejectedError for names that are no host lists, no names, or there twice.
    """

    def __init__(self, cluster: str, host_lists: Sequence[str] = ()) -> None:
        self._cluster = cluster
        self._names = expand(",".join(host_lists)) if host_lists else []
        # Of a cluster that declared none, those that somebody named before.
        self._indices = {name: index for index, name in enumerate(self._names)}
        if len(self._indices) < len(self._names):
            raise RejectedError("node_names", "must be different from each other")

    def __len__(self) -> int:
        return len(self._names)

    @property
    def declared(self) -> Sequence[str]:
        """Return all that were declared, by index."""
        return self._names

    def name(self, index: int) -> str:
        """Return the name of a node; nodes beyond those declared have one all the same."""
        return self._names[index] if index < len(self) else node_name(self._cluster, index)

    def find(self, name: str) -> int | None:
        """Return the index of a node, None where no node has the name."""
        try:
            return self.index(name)
        except RejectedError:
            return None

    def index(self, name: str) -> int:
        """Return the index of a node. Raises RejectedError for a name that no node has."""
        known = self._indices.get(name)
        if known is not None:
            return known
        if self._names:
            raise RejectedError("nodes", f"{name[:80]!r} is not a declared node of {self._cluster}")
        index = self._indices[name] = node_index(self._cluster, name)
        return index

    def indices(self, told: Iterable[str]) -> tuple[int, ...]:
        """Return the indices, ascending, of nodes that are given one by one or as host lists.
        Raises RejectedError."""
        texts = dict.fromkeys(told)
        if texts.keys() <= self._indices.keys():
            return tuple(sorted({self._indices[name] for name in texts}))
        lists = dict.fromkeys(text for text in texts if not self._is_name(text))
        alone = [text for text in texts if text not in lists]
        names = [*alone, *(expand(",".join(lists)) if lists else ())]
        return tuple(sorted({self.index(name) for name in names}))

    def in_order(self, told: Iterable[str]) -> list[int]:
        """Return the indices of such nodes in the order given. Raises RejectedError, also for one
        that is given twice."""
        parts = ([text] if self._is_name(text) else expand(text) for text in told)
        found = [self.index(name) for part in parts for name in part]
        if len(set(found)) < len(found):
            raise RejectedError("nodes", "must be different from each other")
        return found

    def _is_name(self, text: str) -> bool:
        """A name may look like a host list where its cluster's name does."""
        try:
            self.index(text)
        except RejectedError:
            return not {*text} & {*",[]"}
        return True

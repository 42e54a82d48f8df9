"""Publishes which nodes Slurm takes out and brings back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_service_pb2 import ShowNodesResponse

from cli import nodes
from cli.asking import publish
from cli.listing import listed_clusters
from cli.times import clock_us
from shared.domain.drains import drain_changes
from shared.domain.folding import fold
from shared.domain.hostlist import expand

# In which Slurm starts nothing on a node, as `sinfo --json` names them.
_OUT: Final = frozenset({"down", "drain", "error", "fail", "not_responding", "future", "unknown"})
_MOST_REASON: Final = 256


def out(shown: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the nodes on which Slurm starts nothing, and why."""
    return {str(node["name"]): _reason(node) for node in shown if _words(node) & _OUT}


def _words(node: Mapping[str, Any]) -> set[str]:
    """Return a node's state with its flags; later versions give both in one list."""
    state, flags = node["state"], node.get("state_flags", ())
    return {word.lower() for word in ([state] if isinstance(state, str) else state) + list(flags)}


def _reason(node: Mapping[str, Any]) -> str:
    said = str(node.get("reason") or "")
    return (said or f"{' '.join(sorted(_words(node)))} in Slurm")[:_MOST_REASON]


def changes(
    now_out: Mapping[str, str], standing: ShowNodesResponse, source: str
) -> tuple[dict[str, list[str]], list[str]]:
    """Return the nodes to drain, by reason, and the nodes to resume. Drain those that are out and
    that Coplace does not know to be; resume those that this source drained and that are back: what
    others drained is theirs to resume."""
    drained_by = {
        name: g.drained_by for g in standing.groups for name in _named(g.nodes) if g.drained_by
    }
    return drain_changes(now_out, drained_by, source)


def _named(host_lists: Iterable[str]) -> Iterable[str]:
    return (name for each in host_lists for name in expand(each))


class DrainPublisher:
    """Asks placement only when the states of Slurm's nodes have changed; keeps nothing else."""

    def __init__(self, placement: str, ingest: str, site: str, cluster: str) -> None:
        self._placement, self._ingest, self._cluster = placement, ingest, cluster
        self._source = f"{site}/{cluster}"
        self._told: dict[str, str] | None = None

    def knows_cluster(self) -> bool:
        """Return whether placement has the declaration: before that it rejects the cluster's jobs.
        Raises UnansweredError."""
        return self._cluster in {each.name for each in listed_clusters(self._placement)}

    def tell(self, shown: Sequence[Mapping[str, Any]]) -> None:
        """Drain what is out, resume what is back. Raises UnansweredError."""
        now_out = out(shown)
        if now_out == self._told:
            return
        standing = nodes.ask(self._placement, self._cluster)
        drained, resumed = changes(now_out, standing, self._source)
        for reason, names in drained.items():
            self._drain(names, reason)
        if resumed:
            self._resume(resumed)
        self._told = now_out

    def _drain(self, names: Sequence[str], reason: str) -> None:
        event = self._event(f"drained/{names[0]}")
        message = event.nodes_drained
        message.cluster, message.reason, message.drained_at_us = (
            self._cluster,
            reason,
            event.time_us,
        )
        message.nodes.extend(fold(names))
        publish(self._ingest, event)

    def _resume(self, names: Sequence[str]) -> None:
        event = self._event(f"resumed/{names[0]}")
        message = event.nodes_resumed
        message.cluster, message.resumed_at_us = self._cluster, event.time_us
        message.nodes.extend(fold(names))
        publish(self._ingest, event)

    def _event(self, what: str) -> Envelope:
        now_us = clock_us()
        event_id = f"{self._source}/nodes/{what}/{now_us}"
        return Envelope(id=event_id, source=self._source, time_us=now_us)

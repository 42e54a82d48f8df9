"""Publishes which nodes Slurm takes out and brings back."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import structlog
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_service_pb2 import ShowNodesResponse

from coplace_client.calls import UnansweredError
from services.slurm.adapters.region import AskedRegion
from services.slurm.model.clusters import is_node
from services.slurm.model.node_power import is_switched, words_of
from shared.domain.drains import drain_changes
from shared.domain.folding import fold
from shared.domain.hostlist import expand
from shared.domain.printable import printable
from shared.process.clock import now_us

# In which Slurm starts nothing on a node, as `sinfo --json` names them.
_OUT: Final = frozenset({"down", "drain", "error", "fail", "not_responding", "future", "unknown"})

log = structlog.get_logger(__name__)


def out(shown: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the nodes on which Slurm starts nothing, and why."""
    return {str(node["name"]): _reason(node) for node in shown if is_node(node) and _is_out(node)}


def _is_out(node: Mapping[str, Any]) -> bool:
    """Return whether nothing starts there. One that is off or boots does not respond: that is no
    reason."""
    silent = {"not_responding"} if is_switched(node) else set()
    return not (words_of(node) - silent).isdisjoint(_OUT)


def _reason(node: Mapping[str, Any]) -> str:
    """Anybody's words, as an event can hold them."""
    said = node.get("reason")
    if isinstance(said, str) and said:
        return printable(said)
    return printable(f"{' '.join(sorted(words_of(node)))} in Slurm")


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


def _declared(now_out: Mapping[str, str], standing: ShowNodesResponse) -> Mapping[str, str]:
    """Those that placement knows, as far as it shows all: one that nobody declared would make a
    dead letter of the drain of all others."""
    known = {name for group in standing.groups for name in _named(group.nodes)}
    if not known or standing.groups_left_out:
        return now_out
    return {name: reason for name, reason in now_out.items() if name in known}


def _named(host_lists: Iterable[str]) -> Iterable[str]:
    return (name for each in host_lists for name in expand(each))


class DrainPublisher:
    """Asks placement when the states of Slurm's nodes have changed, and at a fixed interval, since
    others may have resumed what Slurm has taken out; keeps nothing else."""

    def __init__(
        self,
        region: AskedRegion,
        site: str,
        cluster: str,
        every_s: float = 60.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._region, self._cluster = region, cluster
        self._source = f"{site}/{cluster}"
        self._every_s, self._now_s = every_s, now_s
        self._told: dict[str, str] | None = None
        self._due_s = 0.0
        self._refused: set[str] = set()

    def tell(self, shown: Sequence[Mapping[str, Any]]) -> None:
        """Drain what is out and resume what is back, as far as placement has it otherwise; what
        ingest refuses keeps nothing else from being published. Raises UnansweredError."""
        now_out, now_s = out(shown), self._now_s()
        if now_out == self._told and now_s < self._due_s:
            return
        standing = self._region.nodes(self._cluster)
        drained, resumed = changes(_declared(now_out, standing), standing, self._source)
        for reason, names in drained.items():
            self._unless_refused(names, partial(self._drain, names, reason))
        if resumed:
            self._unless_refused(resumed, partial(self._resume, resumed))
        self._told, self._due_s = now_out, now_s + self._every_s

    def _unless_refused(self, names: Sequence[str], tell: Callable[[], None]) -> None:
        """Publish what is new of these nodes; a refusal is noted once, and keeps back no other."""
        try:
            tell()
            self._refused -= set(names)
        except UnansweredError as error:
            if not error.is_refusal:
                raise
            if not self._refused.issuperset(names):
                log.warning("nodes are not as Slurm says", nodes=fold(names), problem=str(error))
            self._refused |= set(names)

    def _drain(self, names: Sequence[str], reason: str) -> None:
        event = self._event(f"drained/{names[0]}")
        message = event.nodes_drained
        message.cluster, message.reason, message.drained_at_us = (
            self._cluster,
            reason,
            event.time_us,
        )
        message.nodes.extend(fold(names))
        self._region.publish(event)

    def _resume(self, names: Sequence[str]) -> None:
        event = self._event(f"resumed/{names[0]}")
        message = event.nodes_resumed
        message.cluster, message.resumed_at_us = self._cluster, event.time_us
        message.nodes.extend(fold(names))
        self._region.publish(event)

    def _event(self, what: str) -> Envelope:
        at_us = now_us()
        event_id = f"{self._source}/nodes/{what}/{at_us}"
        return Envelope(id=event_id, source=self._source, time_us=at_us)

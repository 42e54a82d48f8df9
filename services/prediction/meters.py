"""Which meters of nodes are read, and what they show: what placement listens for where a cap leans
on them."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    POWER_SCOPE_SITE,
    PowerCapDeclared,
)
from coplace.v1.prediction_pb2 import NodeMetersRead, NodePowerMeasured

from coplace_client.clock import TOLERANCE_US
from services.prediction.publish import meters_read_event
from shared.catalogue.event import Publish
from shared.domain.cluster import Cluster
from shared.domain.folding import fold
from shared.domain.node import NodeNames
from shared.streams.stages.stage import Round
from shared.streams.state.state import State

# Published for a cluster at most so often.
PERIOD_US: Final = 60_000_000


class LastReading(NamedTuple):
    """When the newest sample of the last reading of a meter was taken, by the node's own clock, the
    end of the round in which it came (0: that is open), whether it was published since, and the
    mean of its samples."""

    until_us: int
    came_us: int
    is_told: bool
    power_mw: int = 0


class DeclaredCap(NamedTuple):
    """When the newest cap of some scope was declared, and whether it has any power."""

    declared_at_us: int
    is_capped: bool


class ReadMeters:
    """Folds readings of nodes of clusters that declare a nameplate power or are under a cap.

    A reading counts where it is another than the last one of its node: a collector that sends one
    again and again is silent. Clocks of nodes are compared with nothing, so one that is wrong or
    jumps does no harm. What came longer ago than a period is not published any more.
    """

    def __init__(self, state: State) -> None:
        self._last = state.table("meter", LastReading)
        self._told_us = state.table("meters-told", int)
        self._clusters: dict[str, Cluster] = {}
        self._names: dict[str, NodeNames] = {}
        self._caps = state.table("capped", DeclaredCap)
        self._untold: dict[str, set[str]] = defaultdict(set)
        for key, last in self._last.items():
            if not last.is_told:
                self._untold[key.partition("|")[0]].add(key)

    def declare(self, cluster: Cluster) -> None:
        """Note that a cluster was declared, or declared anew."""
        self._clusters[cluster.name] = cluster
        self._names.pop(cluster.name, None)
        self._listen()

    def cap(self, message: PowerCapDeclared) -> None:
        """Note that a cap was declared, or one that replaces it. Caps of undeclared subjects are
        not kept."""
        key = f"{message.scope}|{message.name}"
        known = {each for cluster in self._clusters.values() for each in _caps_over(cluster)}
        before = self._caps.get(key)
        if key in known and (before is None or before.declared_at_us <= message.declared_at_us):
            is_capped = any(step.HasField("watts") for step in message.steps)
            self._caps.put(key, DeclaredCap(message.declared_at_us, is_capped))
            self._listen()

    def _listen(self) -> None:
        """Keep the names of the nodes whose readings are published."""
        self._names = {
            name: self._names.get(name) or cluster.names()
            for name, cluster in self._clusters.items()
            if cluster.nameplate_power_w or self._is_capped(cluster)
        }

    def _is_capped(self, cluster: Cluster) -> bool:
        found = map(self._caps.get, _caps_over(cluster))
        return any(cap is not None and cap.is_capped for cap in found)

    def read(self, message: NodePowerMeasured) -> None:
        """Note a reading of a node's meter, the mean of its samples. Readings of undeclared nodes
        are ignored."""
        names = self._names.get(message.cluster)
        if names is None or names.find(message.node) is None:
            return
        key = f"{message.cluster}|{message.node}"
        until_us, last = message.last_at_us, self._last.get(key)
        if last is None or last.until_us != until_us:
            self._last.put(key, LastReading(until_us, 0, False, round(message.power_w * 1000)))
            self._untold[message.cluster].add(key)

    def end_round(self, ended: Round) -> list[Publish]:
        """Return what is due to be published, by cluster. A cap from a clock ahead of the round's
        end is set back to it: what comes in a later round is newer."""
        for key, cap in list(self._caps.items()):
            if cap.declared_at_us > ended.ended_at_us + TOLERANCE_US:
                self._caps.put(key, cap._replace(declared_at_us=ended.ended_at_us))
        found = [self._due(cluster, ended) for cluster in sorted(self._untold)]
        return [meters_read_event(message, ended) for message in found if message is not None]

    def _due(self, cluster: str, ended: Round) -> NodeMetersRead | None:
        """Return the nodes whose meters were read within the last period; None where it is too soon
        to say."""
        came = self._came(cluster, ended.ended_at_us)
        since_us = ended.ended_at_us - PERIOD_US
        if (self._told_us.get(cluster) or 0) > since_us:
            return None
        del self._untold[cluster]
        for key, last in came.items():
            self._last.put(key, last._replace(is_told=True))
        read = {
            key.partition("|")[2]: last.power_mw
            for key, last in came.items()
            if last.came_us > since_us
        }
        if not read:
            return None
        self._told_us.put(cluster, ended.ended_at_us)
        return NodeMetersRead(
            cluster=cluster,
            nodes=fold(read),
            told_at_us=ended.ended_at_us,
            node_power_mw=read.values(),
        )

    def _came(self, cluster: str, ended_at_us: int) -> dict[str, LastReading]:
        """Return what was not published yet of a cluster; what came in the open round came at its
        end."""
        found: dict[str, LastReading] = {}
        for key in sorted(self._untold[cluster]):
            last = self._last.get(key)
            assert last is not None
            if not last.came_us:
                last = last._replace(came_us=ended_at_us)
                self._last.put(key, last)
            found[key] = last
        return found


def _caps_over(cluster: Cluster) -> Iterator[str]:
    """Those that a cluster can be under."""
    of = {POWER_SCOPE_CLUSTER: cluster.name, POWER_SCOPE_SITE: cluster.site, POWER_SCOPE_REGION: ""}
    return (f"{scope}|{name}" for scope, name in of.items())

"""The clusters as they were declared and lost last, word by word."""

from dataclasses import dataclass, field

from coplace.v1.control_pb2 import (
    ClusterDeclared,
    ClusterLost,
    ClusterReturned,
    ClusterUndeclared,
)

from shared.catalogue.event import Event

Stamp = tuple[int, str]


@dataclass(slots=True)
class Declared:
    """The clusters as they were declared and lost last."""

    clusters: dict[str, ClusterDeclared] = field(default_factory=dict)
    _newest: dict[tuple[str, str], Stamp] = field(default_factory=dict)
    _lost: set[str] = field(default_factory=set)

    @property
    def lost(self) -> set[str]:
        return self._lost & self.clusters.keys()

    def learn(self, event: Event) -> None:
        match event.payload:
            case ClusterDeclared() as told if self._is_news("declared", told.cluster, event):
                self.clusters[told.cluster] = told
            case ClusterUndeclared() as told if self._is_news("declared", told.cluster, event):
                self.clusters.pop(told.cluster, None)
                self._lost.discard(told.cluster)
                # What was said of it before comes late from now on.
                self._newest["lost", told.cluster] = event.time_us, event.id
            case ClusterLost() as told if self._is_news("lost", told.cluster, event):
                self._lost.add(told.cluster)
            case ClusterReturned() as told if self._is_news("lost", told.cluster, event):
                self._lost.discard(told.cluster)

    def _is_news(self, kind: str, cluster: str, event: Event) -> bool:
        stamp = event.time_us, event.id
        if stamp <= self._newest.get((kind, cluster), (0, "")):
            return False
        self._newest[kind, cluster] = stamp
        return True

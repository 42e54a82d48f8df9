"""What Prometheus sees of the resource manager."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from services.kubernetes.adapters.reflector import WatchMeter
from services.kubernetes.model.records import PLURAL
from services.kubernetes.model.states import QueueState

_KINDS: Final = ("jobs", "pods", "nodes", PLURAL)

States = Callable[[], Iterable[tuple[str, QueueState]]]


class KubernetesMeter(WatchMeter):
    """Counts what API servers say and refuse, by cluster; each is silent since it was met, until it
    says something."""

    def __init__(self, meter: Meter, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._heard_s: dict[tuple[str, str], float] = {}
        self._states: States = tuple
        self._resyncs = meter.create_counter(
            "kubernetes_resyncs",
            description="Objects listed anew, since what changed in a gap was not known any more",
        )
        self._refusals = meter.create_counter(
            "kubernetes_refusals", description="Requests that an API server will never take"
        )
        self._odd = meter.create_counter(
            "kubernetes_odd_objects",
            description="Objects that were left out, since they could not be read",
        )
        meter.create_observable_gauge(
            "kubernetes_silence",
            [self._observe_silence],
            unit="s",
            description="Time since an API server sent anything of these objects",
        )
        meter.create_observable_gauge(
            "kubernetes_jobs",
            [self._observe_jobs],
            description="Jobs of the queue, by their state with Coplace",
        )

    def begin(self, cluster: str) -> None:
        """Count from 0: what never happened is known not to have happened."""
        self._refusals.add(0, {"cluster": cluster})
        self._odd.add(0, {"cluster": cluster})
        for kind in _KINDS:
            self._resyncs.add(0, {"cluster": cluster, "objects": kind})
            self.heard(cluster, kind)

    def heard(self, cluster: str, path: str) -> None:
        """Note that an API server was heard now."""
        self._heard_s[cluster, _kind(path)] = self._monotonic_s()

    def listed_anew(self, cluster: str, path: str) -> None:
        """Count that a watch broke off and all objects were listed anew."""
        self._resyncs.add(1, {"cluster": cluster, "objects": _kind(path)})

    def refused(self, cluster: str) -> None:
        """Count a request that was invalid or forbidden."""
        self._refusals.add(1, {"cluster": cluster})

    def odd(self, cluster: str) -> None:
        """Count an object that was left out, since it has no identity or cannot be read."""
        self._odd.add(1, {"cluster": cluster})

    def watch(self, states: States) -> None:
        """Count the Jobs of each cluster by these whenever metrics are read."""
        self._states = states

    def _observe_silence(self, _options: CallbackOptions) -> Iterable[Observation]:
        now_s = self._monotonic_s()
        for (cluster, kind), heard_s in sorted(self._heard_s.items()):
            yield Observation(now_s - heard_s, {"cluster": cluster, "objects": kind})

    def _observe_jobs(self, _options: CallbackOptions) -> Iterable[Observation]:
        clusters = {cluster for cluster, _ in self._heard_s}
        found = Counter(self._states())
        for cluster in sorted(clusters):
            for state in QueueState:
                yield Observation(found[cluster, state], {"cluster": cluster, "state": str(state)})


def _kind(path: str) -> str:
    return path.rpartition("/")[2]

"""What Prometheus sees of API servers."""

import time
from collections.abc import Callable, Iterable, Sequence

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from shared.kubernetes.reflector import WatchMeter


class ApiMeter(WatchMeter):
    """Counts what API servers say and refuse, by cluster; each is silent since it was met, until it
    says something. The names of metrics begin with that of the service."""

    def __init__(
        self,
        meter: Meter,
        service: str,
        kinds: Sequence[str],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kinds, self._monotonic_s = kinds, monotonic_s
        self._heard_s: dict[tuple[str, str], float] = {}
        self._resyncs = meter.create_counter(
            f"{service}_resyncs",
            description="Objects listed anew, since what changed in a gap was not known any more",
        )
        self._refusals = meter.create_counter(
            f"{service}_refusals", description="Requests that an API server will never take"
        )
        self._odd = meter.create_counter(
            f"{service}_odd_objects",
            description="Objects that were left out, since they could not be read",
        )
        meter.create_observable_gauge(
            f"{service}_silence",
            [self._observe_silence],
            unit="s",
            description="Time since an API server sent anything of these objects",
        )

    @property
    def clusters(self) -> Sequence[str]:
        """Return the clusters that were met."""
        return sorted({cluster for cluster, _ in self._heard_s})

    def begin(self, cluster: str) -> None:
        """Count from 0: what never happened is known not to have happened."""
        self._refusals.add(0, {"cluster": cluster})
        self._odd.add(0, {"cluster": cluster})
        for kind in self._kinds:
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

    def _observe_silence(self, _options: CallbackOptions) -> Iterable[Observation]:
        now_s = self._monotonic_s()
        for (cluster, kind), heard_s in sorted(self._heard_s.items()):
            yield Observation(now_s - heard_s, {"cluster": cluster, "objects": kind})


def _kind(path: str) -> str:
    return path.rpartition("/")[2]

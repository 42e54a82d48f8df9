"""What Prometheus sees of API servers."""

import time
from collections.abc import Callable, Iterable, Sequence

from opentelemetry.metrics import CallbackOptions, Counter, Observation

from shared.kubernetes.reflector import WatchMeter


class ApiMeter(WatchMeter):
    """Counts what API servers say and refuse, by cluster; each is silent since it was met, until it
    says something. The counters are of the service, by whose name they are known."""

    def __init__(
        self,
        kinds: Sequence[str],
        *,
        resyncs: Counter,
        refusals: Counter,
        odd: Counter,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kinds, self._monotonic_s = kinds, monotonic_s
        self._resyncs, self._refusals, self._odd = resyncs, refusals, odd
        self._heard_s: dict[tuple[str, str], float] = {}

    @property
    def clusters(self) -> Sequence[str]:
        """Return the clusters that were met."""
        return sorted({cluster for cluster, _ in self._heard_s})

    def begin(self, cluster: str, kinds: Sequence[str] = ()) -> None:
        """Count from 0: what never happened is known not to have happened. A cluster has other
        `kinds` where these are named."""
        self._refusals.add(0, {"cluster": cluster})
        self._odd.add(0, {"cluster": cluster})
        for kind in kinds or self._kinds:
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

    def observe_silence(self, _options: CallbackOptions) -> Iterable[Observation]:
        """Yield the seconds since each API server sent anything of some objects."""
        now_s = self._monotonic_s()
        for (cluster, kind), heard_s in sorted(self._heard_s.items()):
            yield Observation(now_s - heard_s, {"cluster": cluster, "objects": kind})


def _kind(path: str) -> str:
    return path.rpartition("/")[2]

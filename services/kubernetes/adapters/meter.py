"""What Prometheus sees of the resource manager."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from services.kubernetes.model.executor_nodes import PLURAL as EXECUTOR_NODES
from services.kubernetes.model.queues import QueueCounts
from services.kubernetes.model.records import PLURAL
from services.kubernetes.model.states import QueueState
from shared.kubernetes.meter import ApiMeter

_KINDS: Final = ("jobs", "pods", "nodes", PLURAL)
OF_EXECUTOR: Final = ("jobs", EXECUTOR_NODES)
"""What is heard of a cluster that has an executor."""

CountsByCluster = Callable[[], Mapping[str, QueueCounts]]


class KubernetesMeter(ApiMeter):
    """Counts also the Jobs of the queue, by their state with Coplace."""

    def __init__(self, meter: Meter, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(
            _KINDS,
            resyncs=meter.create_counter(
                "kubernetes_resyncs",
                description="Objects listed anew, since changes in a gap were not known any more",
            ),
            refusals=meter.create_counter(
                "kubernetes_refusals", description="Requests that an API server will never take"
            ),
            odd=meter.create_counter(
                "kubernetes_odd_objects",
                description="Objects that were left out, since they could not be read",
            ),
            monotonic_s=monotonic_s,
        )
        meter.create_observable_gauge(
            "kubernetes_silence",
            [self.observe_silence],
            unit="s",
            description="Time since an API server sent anything of these objects",
        )
        self._counts: CountsByCluster = dict
        meter.create_observable_gauge(
            "kubernetes_jobs",
            [self._observe_jobs],
            description="Jobs of the queue, by their state with Coplace",
        )

    def watch(self, counts: CountsByCluster) -> None:
        """Show these counts of the Jobs of each cluster whenever metrics are read."""
        self._counts = counts

    def _observe_jobs(self, _options: CallbackOptions) -> Iterable[Observation]:
        found = self._counts()
        for cluster in self.clusters:
            counts = found.get(cluster, QueueCounts())
            for state in QueueState:
                yield Observation(counts.of(state), {"cluster": cluster, "state": str(state)})

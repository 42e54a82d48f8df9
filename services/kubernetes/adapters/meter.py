"""What Prometheus sees of the resource manager, and of an executor."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from services.kubernetes.model.assignments import PLURAL as ASSIGNMENTS
from services.kubernetes.model.executor_nodes import PLURAL as EXECUTOR_NODES
from services.kubernetes.model.queues import QueueCounts
from services.kubernetes.model.records import PLURAL
from services.kubernetes.model.states import CopyState, QueueState
from shared.kubernetes.meter import ApiMeter

_KINDS: Final = ("jobs", "pods", "nodes", PLURAL)
_OF_RUNS: Final = ("jobs", "pods", "nodes")
OF_EXECUTOR: Final = ("jobs", EXECUTOR_NODES)
"""What is heard of a cluster that has an executor."""
OF_HOME: Final = (ASSIGNMENTS,)
"""What an executor hears of the home cluster."""

CountsByCluster = Callable[[], Mapping[str, QueueCounts]]


class _ServersMeter(ApiMeter):
    """Counts what the API servers of this service say, by the names of its metrics."""

    def __init__(
        self, meter: Meter, kinds: Sequence[str], monotonic_s: Callable[[], float]
    ) -> None:
        super().__init__(
            kinds,
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


class KubernetesMeter(_ServersMeter):
    """Counts also the Jobs of the queue, by their state with Coplace."""

    def __init__(self, meter: Meter, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(meter, _KINDS, monotonic_s)
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


class ExecutorMeter(_ServersMeter):
    """Counts also the copies of a cluster, by their state with its executor."""

    def __init__(
        self, meter: Meter, cluster: str, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(meter, _OF_RUNS, monotonic_s)
        self._cluster = cluster
        self._counts: Callable[[], Mapping[CopyState, int]] = dict
        meter.create_observable_gauge(
            "kubernetes_copies",
            [self._observe_copies],
            description="Copies that are assigned to the cluster, by their state with its executor",
        )

    def watch(self, counts: Callable[[], Mapping[CopyState, int]]) -> None:
        """Show these counts of copies whenever metrics are read."""
        self._counts = counts

    def _observe_copies(self, _options: CallbackOptions) -> Iterable[Observation]:
        found = self._counts()
        for state in CopyState:
            told = {"cluster": self._cluster, "state": str(state)}
            yield Observation(found.get(state, 0), told)

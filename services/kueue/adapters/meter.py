"""What Prometheus sees of the adapter."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from services.kueue.model.states import WorkloadState
from shared.kubernetes.meter import ApiMeter

_KINDS: Final = (
    *("workloads", "workloadrecords", "pods", "nodes"),
    *("admissionchecks", "multikueueconfigs", "resourceflavors"),
)

States = Callable[[], Iterable[tuple[str, WorkloadState]]]


class KueueMeter(ApiMeter):
    """Counts also the Workloads of each API server, by their state with Coplace."""

    def __init__(self, meter: Meter, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(
            _KINDS,
            resyncs=meter.create_counter(
                "kueue_resyncs",
                description="Objects listed anew, since changes in a gap were not known any more",
            ),
            refusals=meter.create_counter(
                "kueue_refusals", description="Requests that an API server will never take"
            ),
            odd=meter.create_counter(
                "kueue_odd_objects",
                description="Objects that were left out, since they could not be read",
            ),
            monotonic_s=monotonic_s,
        )
        self._states: States = tuple
        self._meter = meter
        meter.create_observable_gauge(
            "kueue_silence",
            [self.observe_silence],
            unit="s",
            description="Time since an API server sent anything of these objects",
        )
        meter.create_observable_gauge(
            "kueue_workloads",
            [self._observe_workloads],
            description="Workloads that Coplace has a say on, by their state with it",
        )

    def watch_lease(self, silent_s: Callable[[], float], let_go: Callable[[], int]) -> None:
        """Report for how long Coplace has been silent, and how many Workloads were let go."""
        self._meter.create_observable_gauge(
            "kueue_coplace_silence",
            [lambda _: [Observation(silent_s())]],
            unit="s",
            description="Time since the Lease of Coplace was renewed",
        )
        self._meter.create_observable_counter(
            "kueue_let_go",
            [lambda _: [Observation(let_go())]],
            description="Workloads that were given to Kueue's own rules",
        )

    def watch(self, states: States) -> None:
        """Count the Workloads of each API server by these whenever metrics are read."""
        self._states = states

    def _observe_workloads(self, _options: CallbackOptions) -> Iterable[Observation]:
        found = Counter(self._states())
        for cluster in self.clusters:
            for state in WorkloadState:
                yield Observation(found[cluster, state], {"cluster": cluster, "state": str(state)})

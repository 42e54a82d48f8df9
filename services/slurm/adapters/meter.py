"""What Prometheus sees of the resource manager of a Slurm."""

import time
from collections.abc import Callable, Iterable, Mapping

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from services.slurm.adapters.publisher import ShownState


class SlurmMeter:
    """Counts the calls to Slurm, and its jobs; it is silent since it was met, until it says
    something."""

    def __init__(self, meter: Meter, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._heard_s = monotonic_s()
        self._states: Callable[[], Mapping[ShownState, int]] = dict
        self._waiting: Callable[[], int] = lambda: 0
        self._unknown: Callable[[], int] = lambda: 0
        self._calls = meter.create_counter("slurm_calls", description="Commands of Slurm, by name")
        self._failures = meter.create_counter(
            "slurm_failures", description="Commands of Slurm that failed, by name"
        )
        meter.create_observable_gauge(
            "slurm_silence",
            [self._observe_silence],
            unit="s",
            description="Time since Slurm answered a command",
        )
        meter.create_observable_gauge(
            "slurm_jobs", [self._observe_jobs], description="Jobs that Slurm shows, by their state"
        )
        meter.create_observable_gauge(
            "slurm_decisions_waiting",
            [self._observe_waiting],
            description="Decisions that have come and are not obeyed yet",
        )

        meter.create_observable_gauge(
            "slurm_unknown_fields",
            [self._observe_unknown],
            description="Fields of jobs that say something and that no known release of Slurm has",
        )

    def called(self, program: str, has_answered: bool) -> None:
        """Count a command."""
        self._calls.add(1, {"program": program})
        if has_answered:
            self._heard_s = self._monotonic_s()
        else:
            self._failures.add(1, {"program": program})

    def watch(
        self,
        states: Callable[[], Mapping[ShownState, int]],
        waiting: Callable[[], int],
        unknown: Callable[[], int],
    ) -> None:
        """Say what these say whenever metrics are read."""
        self._states, self._waiting, self._unknown = states, waiting, unknown

    def _observe_silence(self, _options: CallbackOptions) -> Iterable[Observation]:
        yield Observation(self._monotonic_s() - self._heard_s)

    def _observe_jobs(self, _options: CallbackOptions) -> Iterable[Observation]:
        found = self._states()
        for state in ShownState:
            yield Observation(found.get(state, 0), {"state": str(state)})

    def _observe_waiting(self, _options: CallbackOptions) -> Iterable[Observation]:
        yield Observation(self._waiting())

    def _observe_unknown(self, _options: CallbackOptions) -> Iterable[Observation]:
        yield Observation(self._unknown())

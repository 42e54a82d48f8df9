"""What the agent counts."""

from collections.abc import Callable, Iterable
from enum import StrEnum

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.metrics import Meter as InstrumentFactory

from services.agent.model import Timing, dilation_ratio


class ShutterResult(StrEnum):
    """What became of a shutter."""

    MEASURED = "measured"
    SPOILED = "spoiled"
    """A co-runner did not stand still, or for too long."""


class AgentMeter:
    """Counters and gauges of one agent."""

    def __init__(self, meter: InstrumentFactory) -> None:
        self._meter = meter
        self._shutters = meter.create_counter("agent_shutters", description="Shutters, by result")
        self._paused_s = meter.create_counter(
            "agent_paused", unit="s", description="Time that jobs stood still for shutters"
        )
        self._shared_s = meter.create_counter(
            "agent_shared", unit="s", description="Time that jobs ran together and were shuttered"
        )
        self._jobs = meter.create_gauge("agent_jobs", description="Jobs that run on the node")
        self._overhead = meter.create_gauge(
            "agent_overhead",
            description="By how much runs last longer by equation 10, of shutters as they are",
        )
        self._period_s = meter.create_gauge("agent_period", unit="s", description="P, as adapted")
        self._measurement_s = meter.create_gauge(
            "agent_measurement", unit="s", description="S, as adapted"
        )
        for result in ShutterResult:
            self._shutters.add(0, {"result": result})

    def jobs(self, count: int) -> None:
        """So many jobs run on the node; below two nobody is shuttered."""
        self._jobs.set(count)
        if count < 2:
            self._overhead.set(0)

    def result(self, result: ShutterResult) -> None:
        """What became of a shutter."""
        self._shutters.add(1, {"result": result})

    def shutter(self, jobs: int, pause_s: float, timing: Timing) -> None:
        """All of n jobs but one stood still for `pause_s`."""
        self._paused_s.add((jobs - 1) * pause_s)
        self._overhead.set(dilation_ratio(jobs, pause_s, timing.period_s) - 1)
        self._period_s.set(timing.period_s)
        self._measurement_s.set(timing.measurement_s)

    def shared(self, jobs: int, time_s: float) -> None:
        """N jobs ran together for so long."""
        self._shared_s.add(jobs * time_s)

    def watch_spool(self, waiting: Callable[[], int], refused: Callable[[], int]) -> None:
        """Ask for these whenever the metrics are read."""
        self._meter.create_observable_gauge(
            "agent_spooled", [_observing(waiting)], description="Events that ingest has not got yet"
        )
        self._meter.create_observable_counter(
            "agent_refused", [_observing(refused)], description="Events that ingest will not take"
        )


def _observing(
    figure: Callable[[], int],
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _options: [Observation(figure())]

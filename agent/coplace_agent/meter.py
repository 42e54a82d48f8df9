"""What the agent counts."""

from collections.abc import Callable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from coplace_agent.model import Timing, dilation_ratio


class ShutterResult(StrEnum):
    """What became of a shutter."""

    MEASURED = "measured"
    SPOILED = "spoiled"
    """A co-runner was not stopped, or for too long."""


class AgentMeter:
    """Counters and gauges of one agent."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._shutters = Counter(
            "coplace_agent_shutters", "Shutters, by result", ["result"], registry=self._registry
        )
        self._paused_s = self._counter("paused_seconds", "Time that jobs were stopped for shutters")
        self._shared_s = self._counter(
            "shared_seconds", "Time that jobs ran together and were shuttered"
        )
        self._jobs = self._gauge("jobs", "Jobs that run on the node")
        self._overhead = self._gauge(
            "overhead", "By how much runs last longer by equation 10, of shutters as they are"
        )
        self._period_s = self._gauge("period_seconds", "P, as adapted")
        self._measurement_s = self._gauge("measurement_seconds", "S, as adapted")
        for result in ShutterResult:
            self._shutters.labels(result)

    def _counter(self, name: str, about: str) -> Counter:
        return Counter(f"coplace_agent_{name}", about, registry=self._registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(f"coplace_agent_{name}", about, registry=self._registry)

    def exposition(self) -> bytes:
        """Return all metrics as Prometheus reads them."""
        return generate_latest(self._registry)

    def jobs(self, count: int) -> None:
        """Set how many jobs run on the node; below two no shutter is made."""
        self._jobs.set(count)
        if count < 2:
            self._overhead.set(0)

    def result(self, result: ShutterResult) -> None:
        """Count a shutter by its result."""
        self._shutters.labels(result).inc()

    def shutter(self, jobs: int, pause_s: float, timing: Timing) -> None:
        """Count a shutter: all of n jobs but one were stopped for `pause_s`."""
        self._paused_s.inc((jobs - 1) * pause_s)
        self._overhead.set(dilation_ratio(jobs, pause_s, timing.period_s) - 1)
        self._period_s.set(timing.period_s)
        self._measurement_s.set(timing.measurement_s)

    def shared(self, jobs: int, time_s: float) -> None:
        """Count the time that n jobs ran together."""
        self._shared_s.inc(jobs * time_s)

    def watch_spool(self, waiting: Callable[[], int], refused: Callable[[], int]) -> None:
        """Ask for these whenever the metrics are read."""
        self._gauge("spooled", "Events that ingest has not got yet").set_function(waiting)
        self._registry.register(_Refused(refused))

    def watch_process(self, is_ready: Callable[[], bool], clock_off_s: Callable[[], float]) -> None:
        """Ask, whenever the metrics are read, how the process is."""
        ready = Gauge("coplace_ready", "1 while the process does its work", registry=self._registry)
        ready.set_function(lambda: float(is_ready()))
        off = Gauge(
            "coplace_clock_off_seconds",
            "The wall clock less the time that passed: an alarm unless 0",
            registry=self._registry,
        )
        off.set_function(clock_off_s)


class _Refused(Collector):
    """A counter that another object keeps."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count

    def collect(self) -> list[Metric]:
        """As Prometheus's client asks for it."""
        about = "Events that ingest will not take"
        return [CounterMetricFamily("coplace_agent_refused", about, value=self._count())]

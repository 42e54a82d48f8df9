"""What the energy API counts."""

from typing import Final

from opentelemetry.metrics import Meter

_DURATION_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class EnergyApiMeter:
    """Calls by outcome, points with and without projection, and how long answers take."""

    def __init__(self, meter: Meter) -> None:
        self._calls = meter.create_counter("energy_api_calls", description="Calls of Project")
        self._points = meter.create_counter(
            "energy_api_points", description="P-states that were asked for"
        )
        self._duration_s = meter.create_histogram(
            "energy_api_duration",
            unit="s",
            description="From a request to its answer",
            explicit_bucket_boundaries_advisory=_DURATION_BUCKETS_S,
        )

        for outcome in ("answered", "rejected"):
            self._calls.add(0, {"outcome": outcome})
        for outcome in ("projected", "missing"):
            self._points.add(0, {"outcome": outcome})

    def answered(self, projected: int, missing: int, duration_s: float) -> None:
        """Count a call that was answered with so many points."""
        self._calls.add(1, {"outcome": "answered"})
        self._points.add(projected, {"outcome": "projected"})
        self._points.add(missing, {"outcome": "missing"})
        self._duration_s.record(duration_s)

    def rejected(self) -> None:
        """Count a call that was refused."""
        self._calls.add(1, {"outcome": "rejected"})

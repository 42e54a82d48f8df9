"""What REST counts."""

from typing import Final

from opentelemetry.metrics import Meter

_DURATION_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class RestMeter:
    """Requests by operation and status, and how long answers take."""

    def __init__(self, meter: Meter) -> None:
        self._requests = meter.create_counter(
            "rest_requests", description="Requests by operation and status"
        )
        self._duration_s = meter.create_histogram(
            "rest_duration",
            unit="s",
            description="From a request to its answer, by operation",
            explicit_bucket_boundaries_advisory=_DURATION_BUCKETS_S,
        )
        self._requests.add(0, {"operation": "ListJobs", "status": "200"})

    def answered(self, operation: str, status: int, duration_s: float) -> None:
        """Count a request."""
        self._requests.add(1, {"operation": operation, "status": str(status)})
        self._duration_s.record(duration_s, {"operation": operation})

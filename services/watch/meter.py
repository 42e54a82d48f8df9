"""What the watch service counts."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

_ENDS: Final = ("fell_behind", "refused", "gone")


class DecisionStreamMeter:
    """Watchers and what they got."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._read = meter.create_counter(
            "watch_decisions_read", description="Decisions read from Kafka as they came"
        )
        self._handed = meter.create_counter(
            "watch_decisions_handed", description="Decisions handed to watchers"
        )
        self._ended = meter.create_counter(
            "watch_streams_ended", description="Streams that ended, by why"
        )
        self._catch_ups = meter.create_counter(
            "watch_catch_ups", description="Watchers that had to read older decisions from Kafka"
        )
        for counter in (self._read, self._handed, self._catch_ups):
            counter.add(0)
        for end in _ENDS:
            self._ended.add(0, {"why": end})

    def observe(
        self, watchers: Callable[[], int], ring_bytes: Callable[[], int], jobs: Callable[[], int]
    ) -> None:
        """Ask, whenever the metrics are read, for these."""
        for name, description, value in (
            ("watch_watchers", "Streams that are open", watchers),
            ("watch_ring_bytes", "Memory of the newest decisions", ring_bytes),
            ("watch_jobs_known", "Jobs whose users are known", jobs),
        ):
            self._meter.create_observable_gauge(
                name, [partial(_observed, value)], description=description
            )

    def read(self, count: int) -> None:
        """Count decisions that came."""
        self._read.add(count)

    def handed(self) -> None:
        """Count a decision that was handed over."""
        self._handed.add(1)

    def caught_up(self) -> None:
        """Count a watcher that reads from Kafka."""
        self._catch_ups.add(1)

    def ended(self, why: str) -> None:
        """Count the end of a stream."""
        self._ended.add(1, {"why": why})


def _observed(value: Callable[[], int], _options: CallbackOptions) -> Sequence[Observation]:
    return [Observation(value())]

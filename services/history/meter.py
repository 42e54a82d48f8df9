"""What the history counts."""

from collections.abc import Callable, Sequence
from functools import partial

from opentelemetry.metrics import CallbackOptions, Meter, Observation


class HistoryMeter:
    """What was applied, how late, and what was asked."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._applied = meter.create_counter(
            "history_records_applied", description="Records of topics that are in the database"
        )
        self._applied.add(0)
        self._asked_s = meter.create_histogram(
            "history_question_seconds", unit="s", description="Time of an answer, by question"
        )

    def observe(self, lag_s: Callable[[], float], behind: Callable[[], int]) -> None:
        """Ask, whenever the metrics are read, for these."""
        for name, description, value in (
            (
                "history_lag_seconds",
                "Age of the newest record that is in the database, while others wait; else 0",
                lag_s,
            ),
            ("history_behind_offsets", "Offsets of the topics that are not in it yet", behind),
        ):
            self._meter.create_observable_gauge(
                name, [partial(_observed, value)], description=description
            )

    def applied(self, records: int) -> None:
        """Count records that were applied."""
        self._applied.add(records)

    def answered(self, question: str, took_s: float) -> None:
        """Count an answer."""
        self._asked_s.record(took_s, {"question": question})


def _observed(value: Callable[[], float], _options: CallbackOptions) -> Sequence[Observation]:
    return [Observation(value())]

"""What webhooks count."""

from collections.abc import Callable, Sequence
from functools import partial

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from services.webhooks.deliveries import DeliveryBacklog
from services.webhooks.model import DeliveryAttempt


class WebhooksMeter:
    """What was applied and attempted, and what waits."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._applied = meter.create_counter(
            "webhooks_records_applied", description="Records of topics that are in the database"
        )
        self._applied.add(0)
        self._attempts = meter.create_counter(
            "webhooks_attempts", description="Attempts to deliver, by what came of them"
        )
        for result in ("delivered", "refused", "unanswered"):
            self._attempts.add(0, {"result": result})
        self._alerts = meter.create_counter(
            "webhooks_alerts", description="Alerts that Alertmanager posted"
        )
        self._alerts.add(0)

    def observe(
        self,
        backlog: Callable[[], DeliveryBacklog],
        lag_s: Callable[[], float],
        behind: Callable[[], int],
    ) -> None:
        """Ask, whenever the metrics are read, for these."""
        for name, description, value in (
            ("webhooks_waiting", "Deliveries that wait", lambda: backlog().waiting),
            (
                "webhooks_overdue_seconds",
                "How long the oldest delivery is overdue, of receivers that answer",
                lambda: backlog().overdue_s,
            ),
            ("webhooks_failed", "Deliveries that were given up", lambda: backlog().failed),
            ("webhooks_disabled", "Webhooks that are disabled", lambda: backlog().disabled),
            (
                "webhooks_lag_seconds",
                "Age of the newest record that is in the database, while others wait; else 0",
                lag_s,
            ),
            ("webhooks_behind_offsets", "Offsets of the topics that are not in it yet", behind),
        ):
            self._meter.create_observable_gauge(
                name, [partial(_observed, value)], description=description
            )

    def applied(self, records: int) -> None:
        """Count records that were applied."""
        self._applied.add(records)

    def attempted(self, attempt: DeliveryAttempt) -> None:
        """Count an attempt."""
        answered = "refused" if attempt.status else "unanswered"
        self._attempts.add(1, {"result": "delivered" if attempt.is_delivered else answered})

    def alerted(self, alerts: int) -> None:
        """Count alerts."""
        self._alerts.add(alerts)


def _observed(value: Callable[[], float], _options: CallbackOptions) -> Sequence[Observation]:
    return [Observation(value())]

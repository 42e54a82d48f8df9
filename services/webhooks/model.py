"""What becomes of a delivery after an attempt. Pure.

The schedule is that of Standard Webhooks: ten attempts over three days.
"""

import hashlib
from enum import IntEnum
from typing import Final, NamedTuple

_S: Final = 1_000_000
_MINUTE: Final = 60 * _S
_HOUR: Final = 60 * _MINUTE
# How long after an attempt the next one is made, us.
SCHEDULE_US: Final = (
    *(5 * _S, 5 * _MINUTE, 30 * _MINUTE, 2 * _HOUR, 5 * _HOUR),
    *(10 * _HOUR, 14 * _HOUR, 20 * _HOUR, 24 * _HOUR),
)
# A wait is longer than it says by up to this share, so that not all come at once.
_JITTER: Final = 0.1
# A receiver that asks for more is tried again all the same.
_MOST_RETRY_AFTER_US: Final = 24 * _HOUR
_OK: Final = range(200, 300)
_GONE: Final = 410


class DeliveryState(IntEnum):
    """Whether a delivery is still to be made, as in the table `deliveries`."""

    WAITING = 0
    DELIVERED = 1
    FAILED = 2


class DeliveryAttempt(NamedTuple):
    """What came of one attempt: the HTTP status, 0 where no answer came; what was wrong; and for
    how long the receiver asked to wait."""

    status: int
    error: str = ""
    retry_after_us: int = 0

    @property
    def is_delivered(self) -> bool:
        """Return whether the receiver took it."""
        return self.status in _OK

    @property
    def is_gone(self) -> bool:
        """Return whether the receiver says that it wants nothing any more."""
        return self.status == _GONE


class Following(NamedTuple):
    """What follows from an attempt: the state of the delivery, how many attempts there were, and
    when the next one is due."""

    state: DeliveryState
    attempts: int
    due_at_us: int


def after_attempt(
    delivery_id: str, attempts: int, attempt: DeliveryAttempt, now_us: int
) -> Following:
    """Return what follows from an attempt before which there were so many."""
    made = attempts + 1
    if attempt.is_delivered:
        return Following(DeliveryState.DELIVERED, made, now_us)
    if attempt.is_gone or made > len(SCHEDULE_US):
        return Following(DeliveryState.FAILED, made, now_us)
    wait_us = round(SCHEDULE_US[made - 1] * (1 + _JITTER * _chance(delivery_id, made)))
    asked_us = min(attempt.retry_after_us, _MOST_RETRY_AFTER_US)
    return Following(DeliveryState.WAITING, made, now_us + max(wait_us, asked_us))


def _chance(delivery_id: str, attempts: int) -> float:
    """Return a number from 0 to 1 that is another one for each delivery and attempt."""
    digest = hashlib.sha256(f"{delivery_id}/{attempts}".encode()).digest()
    return int.from_bytes(digest[:4]) / 2**32


class Disabling(NamedTuple):
    """Since when a webhook fails, and why it is to be disabled; empty where it is not."""

    failing_since_us: int
    reason: str


def after_failures(
    failing_since_us: int, attempt: DeliveryAttempt, now_us: int, most_failing_us: int
) -> Disabling:
    """Return whether a webhook that fails is disabled."""
    if attempt.is_delivered:
        return Disabling(0, "")
    since_us = failing_since_us or now_us
    if attempt.is_gone:
        return Disabling(since_us, "the receiver answered 410: it wants nothing any more")
    if now_us - since_us >= most_failing_us:
        days = most_failing_us / (24 * _HOUR)
        return Disabling(since_us, f"nothing was delivered for {days:g} days: {attempt.error}")
    return Disabling(since_us, "")

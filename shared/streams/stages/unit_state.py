"""What a changelog keeps of a unit beside its processor's state."""

from collections.abc import Mapping
from typing import Final

from coplace.v1.control_pb2 import RoundEnded

from shared.catalogue.topics import ROUND_ENDED
from shared.streams.stages import early, outcomes
from shared.streams.stages.stage import Round
from shared.streams.state.rows import rows_of
from shared.streams.state.state import key_of

BEGINNINGS_KEY: Final = "coplace.beginnings"
FAILURES_KEY: Final = "coplace.failures"
ROUND_KEY: Final = ROUND_ENDED
WAKE_KEY: Final = "coplace.wake"
# The last round that a state which was restored, or begun anew, had heard of before.
HEARD_KEY: Final = "coplace.heard"
OWN_KEYS: Final = frozenset({ROUND_KEY, WAKE_KEY, HEARD_KEY, FAILURES_KEY, BEGINNINGS_KEY})
# What a stage that recalls its outputs keeps of them: the round of which they were last.
PUBLISHED_THROUGH: Final = "published-through"


def processor_state(restored: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return a changelog's state without what the unit itself keeps there."""
    return {
        key: value
        for key, value in restored.items()
        if key not in OWN_KEYS and not key.startswith((early.PREFIX, outcomes.PREFIX))
    }


def closed_round(restored: Mapping[str, bytes]) -> Round | None:
    """Return the last closed round of a changelog, None when there was none."""
    if ROUND_KEY not in restored:
        return None
    barrier = RoundEnded.FromString(restored[ROUND_KEY])
    return Round(barrier.round, barrier.ended_at_us)


def last_round(restored: Mapping[str, bytes]) -> int:
    """Return the number of the last round that a changelog closed, -1 when there was none."""
    closed = closed_round(restored)
    return closed.number if closed else -1


def heard_of(restored: Mapping[str, bytes]) -> int:
    """Return the last round of which a repaired state had heard before, -1 where it was not
    repaired."""
    return int(restored.get(HEARD_KEY, b"-1"))


def closed_at_us(restored: Mapping[str, bytes]) -> int:
    """Return when the last closed round of a changelog ended, 0 when there was none."""
    closed = closed_round(restored)
    return closed.ended_at_us if closed else 0


def with_round_ended(restored: Mapping[str, bytes], ended_at_us: int) -> bytes:
    """Return a changelog's last closed round as one that ended at another time, of the same
    number."""
    closed = RoundEnded.FromString(restored[ROUND_KEY])
    closed.ended_at_us = ended_at_us
    return closed.SerializeToString()


def published_through(recalled: Mapping[str, bytes | None]) -> int:
    """Return the last round of which outputs were recalled, -1 without any."""
    value = recalled.get(key_of(PUBLISHED_THROUGH, ""))
    return rows_of(int).decode(value) if value else -1

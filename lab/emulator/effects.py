"""The effects that the emulator's truth is made of, by the names that switch them off."""

from enum import StrEnum
from typing import Final


class Effect(StrEnum):
    """What makes the emulated nodes and applications differ from a line through Table 1."""

    TIME = "time"  # one part of the time follows 1 / f, the other does not
    CLOCKS = "clocks"  # turbo and AVX limits: the clock asked for is not always the clock run
    WAITING = "waiting"  # instructions that grow with the clock: busy waiting in MPI
    IMBALANCE = "imbalance"  # nodes of a job with more work than others
    INPUTS = "inputs"  # inputs that change under one app_id
    POWER = "power"  # voltage that follows the clock, and power that saturates


EVERY: Final = frozenset(Effect)
NONE: Final[frozenset[Effect]] = frozenset()


def effects_without(names: str) -> frozenset[Effect]:
    """Return all effects but those of comma-separated `names`. Raises ValueError for an unknown
    one."""
    off = [name.strip() for name in names.split(",") if name.strip()]
    for name in off:
        if name not in EVERY:
            raise ValueError(f"must be some of {', '.join(Effect)}, got {name!r}")
    return EVERY.difference(map(Effect, off))

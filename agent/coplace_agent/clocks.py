"""The clocks of the agent."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clocks:
    """The wall clock, for the times of events; all else uses one that never steps."""

    wall_us: Callable[[], int]
    steady_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

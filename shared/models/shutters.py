"""How much co-runners slow a job down, by its shutters: section 6 of "Enabling Fair Pricing on HPC
Systems with Node Sharing" (POPPA; Breslow et al., 2013).

Slowdown is T_co / T_solo, which is 1 / (1 - D) of the paper's degradation D.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from coplace_client.bounds import IPC

# Section 6.3: shutters whose neighbours differ by more cross a phase boundary (in IPC).
DELTA_IPC: Final = 0.05
_RESAMPLES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Shutter:
    """IPC, or progress on its scale, before, during and after the co-runners were
    paused. Raises RejectedError."""

    ipc_before: float
    ipc_during: float
    ipc_after: float

    def __post_init__(self) -> None:
        for field in ("ipc_before", "ipc_during", "ipc_after"):
            IPC.require(field, getattr(self, field))

    @property
    def ipc_co(self) -> float:
        """Return the mean IPC beside the co-runners."""
        return 0.5 * (self.ipc_before + self.ipc_after)

    @property
    def is_usable(self) -> bool:
        """Return whether algorithm 4, line 3, keeps it: one computational phase, in which the pause
        relieved contention."""
        return (
            abs(self.ipc_before - self.ipc_after) < DELTA_IPC
            and max(self.ipc_before, self.ipc_after) < self.ipc_during
        )


@dataclass(frozen=True, slots=True)
class Interference:
    """How much a co-runner slowed a job down: slowdown_ratio = T_co / T_solo, 1 is not at all."""

    slowdown_ratio: float
    shutters_used: int
    shutters_dropped: int


def interference(shutters: Sequence[Shutter]) -> Interference:
    """Estimate by algorithm 4 with equations 7 and 8: T_co / T_solo = mean IPC_solo / mean IPC_co.

    Without a usable shutter nothing shows that there was any.
    """
    usable = [shutter for shutter in shutters if shutter.is_usable]
    ratio = 1.0
    if usable:
        solo = sum(shutter.ipc_during for shutter in usable)
        ratio = max(1.0, solo / sum(shutter.ipc_co for shutter in usable))
    return Interference(ratio, len(usable), len(shutters) - len(usable))


def filtered_slowdown(shutters: Sequence[Shutter]) -> float:
    """Estimate by algorithm 4: of usable shutters alone; 1 where there is none."""
    return interference(shutters).slowdown_ratio


def unfiltered_slowdown(shutters: Sequence[Shutter]) -> float:
    """Estimate by equations 7 and 8 over all shutters, of which there is one at least. It may lie
    below 1: the filter leaves out what noise makes look like a gain, this does not."""
    ipc = [(each.ipc_before, each.ipc_during, each.ipc_after) for each in shutters]
    before, during, after = np.mean(np.asarray(ipc, dtype=np.float64), axis=0)
    return float(during / ((before + after) / 2))


def slowdown_interval(
    shutters: Sequence[Shutter],
    slowdown: Callable[[Sequence[Shutter]], float] = filtered_slowdown,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    """Return between which slowdowns an estimate lies, by the percentile bootstrap: shutters are
    drawn again with replacement. It knows of noise, not of what is wrong with all shutters alike,
    such as what the filter leaves out. There is one shutter at least."""
    draws = np.random.default_rng(seed).integers(len(shutters), size=(_RESAMPLES, len(shutters)))
    found = np.array([slowdown([shutters[index] for index in draw]) for draw in draws.tolist()])
    low, high = np.quantile(found, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)

"""Caps of power for tests and benchmarks."""

from math import inf

from shared.scheduling.power import Cap
from shared.simulation.capping import cap_of


def constant_cap(cap_w: float) -> Cap:
    """A cap that never changes."""
    return cap_of((-inf, cap_w))

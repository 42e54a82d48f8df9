"""Caps of power to play under."""

from math import inf

from lab.simulation.capping import cap_of
from shared.scheduling.power import Cap


def constant_cap(cap_w: float) -> Cap:
    """Return a cap that never changes."""
    return cap_of((-inf, cap_w))

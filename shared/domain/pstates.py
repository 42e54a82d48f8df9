"""When two frequencies are of one P-state."""

from collections.abc import Collection
from math import isclose
from typing import Final

# Frequencies nearer to each other than this share are one P-state.
_SAME: Final = 1e-6


def same_ghz(one: float, other: float) -> bool:
    """Return whether two frequencies are of one P-state."""
    return isclose(one, other, rel_tol=_SAME)


def has_ghz(pstates_ghz: Collection[float], ghz: float) -> bool:
    """Return whether a frequency is one of these."""
    return ghz in pstates_ghz or any(same_ghz(ghz, other) for other in pstates_ghz)

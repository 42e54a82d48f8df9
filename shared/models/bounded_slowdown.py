"""What bounded slowdowns divide by (Feitelson, 2001)."""

from typing import Final

# Below it all run times count alike, s.
THRESHOLD_S: Final = 60.0


def bounded_length_s(runs_s: float) -> float:
    """Return what the bounded slowdown of a job that runs so long divides its response by."""
    return max(THRESHOLD_S, runs_s)

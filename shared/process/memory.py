"""How Python looks for memory that it can free."""

import gc
from typing import Final

# The state of a region is many objects that live long and no cycles: at its defaults Python's
# collector of cycles goes through them so often that a fifth to a third of all CPU time goes into
# it.
_THRESHOLDS: Final = (50_000, 20, 100)


def collect_rarely() -> None:
    """Have this process look for cycles rarely: for processes that hold a region's state."""
    gc.set_threshold(*_THRESHOLDS)

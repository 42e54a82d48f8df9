"""What users ask for who know roughly what they need."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lab.workloads.streams import Stream, stream

Floats = NDArray[np.float64]

# Users ask for 1.2 to 3 times what they need, and for a round figure (that they choose from a few
# such values: Tsafrir, Etsion, Feitelson, "Modeling user runtime estimates", JSSPP 2005). The
# factors and the values are our own.
OVERESTIMATE: Final = (1.2, 3.0)
USUAL_WALLTIMES_S: Final = np.array(
    [60.0 * minutes for minutes in (5, 10, 15, 20, 30, 45)]
    + [3600.0 * hours for hours in (1, 1.5, 2, 3, 4, 6, 8, 12, 18, 24, 36, 48, 72, 96, 120, 168)]
)


def walltimes_s(seed: int, runtime_s: Floats) -> Floats:
    """Draw what users ask for in s, (jobs,): an overestimate, rounded up to a usual value."""
    factor = stream(seed, Stream.OVERESTIMATE).uniform(*OVERESTIMATE, size=len(runtime_s))
    return USUAL_WALLTIMES_S[np.searchsorted(USUAL_WALLTIMES_S, runtime_s * factor)]

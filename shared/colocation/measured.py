"""What was measured of applications alone, under a bubble and beside each other."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Bubble sizes that a sensitivity curve is read at, as shares of the machine's largest bubble.
BUBBLES: Final = 29


@dataclass(frozen=True, slots=True, eq=False)
class Profiles:
    """Applications alone, on each machine; NaN where nobody measured.

    `curves` (machines, applications, BUBBLES) is T / T_alone - 1 beside a bubble of growing size
    (Mars et al., "Bubble-Up", MICRO 2011); `contentiousness` (machines, applications) is what an
    application does to a reporter, in any unit of the machine; `alone_s` is the run time alone.
    """

    machines: tuple[str, ...]
    apps: tuple[str, ...]
    curves: Floats
    contentiousness: Floats
    alone_s: Floats

    def columns(self) -> Floats:
        """Return what trees see of each application, shape (machines, applications, columns).

        Contentiousness and run time are shares of the machine's median, since each machine has
        units of its own. What is missing counts as the machine's median application.
        """
        of_machine = np.broadcast_to(
            _median(self.curves.reshape(len(self.machines), -1))[:, :, np.newaxis],
            (*self.alone_s.shape, 1),
        )
        relative = [_relative(each) for each in (self.contentiousness, self.alone_s)]
        curves = self.filled_curves()[:, :, :: BUBBLES // 14]
        return np.concatenate([curves, np.stack(relative, axis=2), of_machine], axis=2)

    def filled_curves(self) -> Floats:
        """Return the curves; an application without one has the machine's median at each size."""
        return np.where(np.isnan(self.curves), _median(self.curves), self.curves)


def _relative(values: Floats) -> Floats:
    """Shares of each machine's median; 1 where that or the value is missing."""
    shares = values / np.where(_median(values) > 0, _median(values), np.nan)
    return np.where(np.isnan(shares), 1.0, shares)


def _median(values: Floats) -> Floats:
    """Return the median over the second axis of what is known; 0 where nothing is. Kept as an
    axis."""
    count = (~np.isnan(values)).sum(axis=1, keepdims=True)
    ascending = np.sort(values, axis=1)  # NaN sorts last
    low, high = (
        np.take_along_axis(ascending, np.maximum(at, 0), axis=1)
        for at in ((count - 1) // 2, np.minimum(count // 2, values.shape[1] - 1))
    )
    return np.where(count > 0, (low + high) / 2, 0.0)

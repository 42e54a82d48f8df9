"""EAR coefficients: how signatures project from one P-state of a node model to another."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coplace_client.errors import RejectedError

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]


# A projection that may be off by this much says nothing, and its quantiles are still finite.
MOST_SD: Final = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Uncertainty:
    """Relative standard deviations of what each pair projects, shape (from, to), from 0 to MOST_SD;
    NaN where none is known, 0 where a P-state projects to itself. Raises RejectedError on
    construction."""

    time_sd: Matrix
    power_sd: Matrix

    def __post_init__(self) -> None:
        for name in ("time_sd", "power_sd"):
            values = getattr(self, name)
            if ((values < 0) | (values > MOST_SD)).any():
                raise RejectedError(name, f"must be from 0 to {MOST_SD:g} wherever it is known")


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """The six EAR coefficients of every ordered P-state pair of a node model, shape (from, to).

    P' = a P + b TPI + c; CPI' = d CPI + e TPI + f (EAMC paper, equations 1 and 2).
    `available` is False where a pair was never measured: 0 is not a projection. `uncertainty` is
    None where nobody said how well they fit.
    Raises RejectedError on construction.
    """

    node_model: str
    version: str
    tpi_scale: str
    pstates_ghz: tuple[float, ...]
    a: Matrix
    b: Matrix
    c: Matrix
    d: Matrix
    e: Matrix
    f: Matrix
    available: Mask
    uncertainty: Uncertainty | None = None

    def __post_init__(self) -> None:
        self._require_shapes()
        for name in ("a", "b", "c", "d", "e", "f"):
            if not np.isfinite(getattr(self, name)[self.available]).all():
                raise RejectedError(name, "must be finite wherever a pair is available")
        for below, ghz in zip((0.0, *self.pstates_ghz), self.pstates_ghz, strict=False):
            if not (math.isfinite(ghz) and ghz > below):
                problem = f"must be above 0 and ascend, got {self.pstates_ghz}"
                raise RejectedError("pstates_ghz", problem)

    def _require_shapes(self) -> None:
        shape = (len(self.pstates_ghz), len(self.pstates_ghz))
        named = {name: getattr(self, name) for name in ("a", "b", "c", "d", "e", "f", "available")}
        if self.uncertainty is not None:
            named |= {name: getattr(self.uncertainty, name) for name in ("time_sd", "power_sd")}
        for name, matrix in named.items():
            if matrix.shape != shape:
                raise RejectedError(name, f"must have the shape {shape} of the P-state pairs")

    def index_of(self, freq_ghz: float) -> int:
        """Return the row of a P-state. Raises RejectedError for a frequency that is not in the
        table."""
        gaps = np.abs(np.asarray(self.pstates_ghz) - freq_ghz)
        nearest = int(np.argmin(gaps))
        if gaps[nearest] > 1e-6:
            raise RejectedError(
                "freq_ghz", f"{freq_ghz} is not a P-state of {self.node_model}: {self.pstates_ghz}"
            )
        return nearest

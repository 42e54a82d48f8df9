"""EAR coefficients: how signatures project from one P-state of a node model to another."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.domain.errors import RejectedError

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """The six EAR coefficients of every ordered P-state pair of a node model, shape (from, to).

    P' = a P + b TPI + c; CPI' = d CPI + e TPI + f (EAMC paper, equations 1 and 2).
    `available` is False where a pair was never measured: 0 is not a projection.
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

    def __post_init__(self) -> None:
        shape = (len(self.pstates_ghz), len(self.pstates_ghz))
        for name in ("a", "b", "c", "d", "e", "f", "available"):
            if getattr(self, name).shape != shape:
                raise RejectedError(name, f"must have the shape {shape} of the P-state pairs")
        for name in ("a", "b", "c", "d", "e", "f"):
            if not np.isfinite(getattr(self, name)[self.available]).all():
                raise RejectedError(name, "must be finite wherever a pair is available")
        for below, ghz in zip((0.0, *self.pstates_ghz), self.pstates_ghz, strict=False):
            if not (math.isfinite(ghz) and ghz > below):
                problem = f"must be above 0 and ascend, got {self.pstates_ghz}"
                raise RejectedError("pstates_ghz", problem)

    def index_of(self, freq_ghz: float) -> int:
        """Row of a P-state. Raises RejectedError for a frequency that is not in the table."""
        gaps = np.abs(np.asarray(self.pstates_ghz) - freq_ghz)
        nearest = int(np.argmin(gaps))
        if gaps[nearest] > 1e-6:
            raise RejectedError(
                "freq_ghz", f"{freq_ghz} is no P-state of {self.node_model}: {self.pstates_ghz}"
            )
        return nearest

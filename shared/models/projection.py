"""What a model says of signatures at P-states that they were not measured at."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from shared.models.spread import Quantile, Spread, Stretch, stacked

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.uint8]


class Status(IntEnum):
    """Where a projection comes from, or why there is none."""

    PROJECTED = 0
    VIA_INTERMEDIATE = 1
    NEVER_MEASURED = 2
    NOT_ABOVE_ZERO = 3
    NO_SUCH_PSTATE = 4
    NO_SIGNATURE = 5

    @property
    def text(self) -> str:
        """Return the status in words."""
        return _TEXTS[self]


_TEXTS = {
    Status.PROJECTED: "projected",
    Status.VIA_INTERMEDIATE: "projected through an intermediate P-state",
    Status.NEVER_MEASURED: "the coefficients of this pair of P-states were never measured",
    Status.NOT_ABOVE_ZERO: "the coefficients give a time or a power that is not above 0",
    Status.NO_SUCH_PSTATE: "the node model has no such P-state",
    Status.NO_SIGNATURE: "the application has no signature on the node model",
}


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Signatures over P-states: arrays of shape (..., P-states), NaN where none exists.

    `status` holds a Status: where each value comes from, or why it is NaN. `spread` says how far
    the truth may be from it, None where nobody knows.
    """

    pstates_ghz: tuple[float, ...]
    time_s: Floats
    power_w: Floats
    status: Codes
    spread: Spread | None = None

    @property
    def available(self) -> Mask:
        """Return where a projection exists."""
        return ~np.isnan(self.time_s)

    @property
    def energy_j(self) -> Floats:
        """Return E = P T of one node over one iteration, J."""
        return self.power_w * self.time_s

    @property
    def time_sd(self) -> Floats:
        """Return the relative standard deviation of `time_s`, NaN where no interval exists."""
        return self._deviation("time_sd")

    @property
    def power_sd(self) -> Floats:
        """Return the relative standard deviation of `power_w`, NaN where no interval exists."""
        return self._deviation("power_sd")

    def at(self, quantile: float) -> Quantile:
        """Return what time, power and energy each exceed with the probability 1 - `quantile`; NaN
        where there is no interval."""
        spread = self.spread or _unknown(self)
        stretch = Stretch.from_deviations(spread.time_sd, spread.power_sd, quantile)
        return Quantile.stretch(self.time_s, self.power_w, stretch.taken(spread.row))

    def planned(self, quantile: float) -> Quantile:
        """Return the quantile as `at` does; the projection itself where there is no interval."""
        spread = self.spread or _unknown(self)
        stretch = Stretch.planned(spread.time_sd, spread.power_sd, quantile)
        return Quantile.stretch(self.time_s, self.power_w, stretch.taken(spread.row))

    def _deviation(self, of: str) -> Floats:
        if self.spread is None:
            return np.full_like(self.time_s, np.nan)
        table: Floats = getattr(self.spread, of)
        return np.where(self.available, table[self.spread.row], np.nan)

    def only(self, rows: Mask) -> "Projection":
        """Return the projections of some signatures, shape (signatures,)."""
        return replace(
            self,
            time_s=self.time_s[rows],
            power_w=self.power_w[rows],
            status=self.status[rows],
            spread=self.spread and self.spread.only(rows),
        )

    def onto(self, pstates_ghz: tuple[float, ...]) -> "Projection":
        """Return the projection over another table of P-states: NaN where this one has no such
        frequency."""
        column = _columns_of(self.pstates_ghz, pstates_ghz)
        known = column >= 0
        return Projection(
            pstates_ghz=pstates_ghz,
            time_s=np.where(known, self.time_s[..., column], np.nan),
            power_w=np.where(known, self.power_w[..., column], np.nan),
            status=np.where(known, self.status[..., column], np.uint8(Status.NO_SUCH_PSTATE)),
            spread=self.spread and self.spread.onto(column),
        )


def side_by_side(projections: Iterable[Projection]) -> Projection:
    """Stack projections of the same jobs on several node models as (jobs, node models, P-states).

    The P-states are those of all node models together.
    """
    several = list(projections)
    pstates_ghz = tuple(sorted({ghz for one in several for ghz in one.pstates_ghz}))
    aligned = [one.onto(pstates_ghz) for one in several]
    return Projection(
        pstates_ghz=pstates_ghz,
        time_s=np.stack([one.time_s for one in aligned], axis=1),
        power_w=np.stack([one.power_w for one in aligned], axis=1),
        status=np.stack([one.status for one in aligned], axis=1),
        spread=stacked([one.spread or _unknown(one) for one in aligned]),
    )


def _unknown(one: Projection) -> Spread:
    return Spread.unknown(len(one.pstates_ghz), one.time_s.shape[:-1])


def _columns_of(table: tuple[float, ...], wanted: tuple[float, ...]) -> NDArray[np.int64]:
    """Index in `table` of each wanted frequency, -1 where it has none."""
    same = np.isclose(np.asarray(wanted)[:, np.newaxis], np.asarray(table), rtol=0, atol=1e-6)
    return np.where(same.any(axis=1), same.argmax(axis=1), -1)

"""Which jobs run at a second clock of their application, so that its own history counts.

An application that ran at one clock is projected by coefficients alone, and where there are none,
not at all. If the policy chooses that clock again and again, it never runs at another. So some of
its jobs do on purpose, few enough that all together cost no more than a declared share of its
energy (docs/adr/0108).
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coplace_client.signature import Signature
from shared.domain.pstates import same_ghz
from shared.eamc.chosen import ChosenPStates
from shared.models.projection import Projection
from shared.models.spread import Quantile

Floats = NDArray[np.float64]

# No job takes longer than this for it, as a multiple of what it takes at the policy's own P-state.
MOST_LONGER: Final = 1.1
# A second clock nearer than this, as a share, says too little of others.
_LEAST_STEP: Final = 0.07


class Exploration(NamedTuple):
    """A second clock of an application in place of `own_ghz`: time and power there with their
    relative standard deviations, equation 4, and the share of its jobs that may run there."""

    own_ghz: float
    freq_ghz: float
    time_s: float
    power_w: float
    time_sd: float
    power_sd: float
    distance: float
    job_share: float

    def is_for(self, job_id: str) -> bool:
        """Return whether a job is one of that share: its id says so, today as in a replay."""
        drawn = int.from_bytes(sha256(job_id.encode()).digest()[:8], "big") / 2**64
        return drawn < self.job_share


class Explored(NamedTuple):
    """Applications on one cluster, by row: their projections, the quantile of them that is planned
    with, equation 4, and what the policy chose."""

    projection: Projection
    planned: Quantile
    distance: Floats
    chosen: ChosenPStates

    def second_clock(
        self, row: int, known: Sequence[Signature], explore_share: float
    ) -> Exploration | None:
        """Return the second clock of one application; None where it ran at two, where the policy
        chooses another than it ran at, and where no clock will do.

        It is the farthest at which a job takes little longer than where the policy has it. If it
        takes x of the energy more there, a share of `explore_share` / x of the jobs may: in the
        mean they cost `explore_share` of the energy of all.
        """
        clocks = {signature.freq_ghz for signature in known}
        own_ghz = float(self.chosen.freq_ghz[row])
        if len(clocks) != 1 or not same_ghz(min(clocks), own_ghz):
            return None
        pstates_ghz = self.projection.pstates_ghz
        own = pstates_ghz.index(own_ghz)
        by_step = sorted(range(len(pstates_ghz)), key=lambda at: -abs(pstates_ghz[at] - own_ghz))
        for column in by_step:
            if abs(pstates_ghz[column] / own_ghz - 1) < _LEAST_STEP:
                return None
            found = self._at(row, own, column, explore_share)
            if found is not None:
                return found
        return None

    def _at(self, row: int, own: int, column: int, explore_share: float) -> Exploration | None:
        """The application at another P-state, None where it would take too long. Where nothing
        projects to a lower clock, time grows with the ratio of clocks at most, and power does
        not."""
        own_ghz, ghz = (self.projection.pstates_ghz[at] for at in (own, column))
        is_known = bool(self.projection.available[row, column])
        if not is_known and ghz > own_ghz:
            return None
        planned, at = self.planned, column if is_known else own
        longer = dearer = own_ghz / ghz
        if is_known:
            longer = float(planned.time_s[row, column] / planned.time_s[row, own])
            dearer = float(planned.energy_j[row, column] / planned.energy_j[row, own])
        if longer > MOST_LONGER:
            return None
        found = self.projection
        return Exploration(
            own_ghz=own_ghz,
            freq_ghz=ghz,
            time_s=float(found.time_s[row, at]) * (1.0 if is_known else longer),
            power_w=float(found.power_w[row, at]),
            time_sd=float(found.time_sd[row, at]),
            power_sd=float(found.power_sd[row, at]),
            distance=float(self.distance[row, at]),
            job_share=min(1.0, explore_share / max(dearer - 1, explore_share)),
        )

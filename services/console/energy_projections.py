"""`coplace energy project`: rows of a file, and what is left out of them."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from services.energy.adapters.matching import Matched
from shared.policies.bridge import bridged
from shared.policies.ear import project
from shared.policies.projection import Projection, Status

COLUMNS = ("app_id", "module", "to_ghz", "time_s", "power_w", "energy_j")
VIA_COLUMN = "via_ghz"


def rows(
    matched: Matched, projection: Projection, *, via_intermediate: bool
) -> Iterator[Sequence[object]]:
    """One row an application and P-state that has a projection, in the order of the file.

    With `via_intermediate` a last column has the P-states between, empty where there are none.
    """
    table = matched.coefficients
    paths = bridged(table).paths if via_intermediate else {}
    energy_j = projection.energy_j
    for i, signature in enumerate(matched.signatures):
        reference = table.index_of(signature.freq_ghz)
        for j in np.flatnonzero(projection.available[i]).tolist():
            values = (projection.time_s[i, j], projection.power_w[i, j], energy_j[i, j])
            row = (signature.app_id, matched.module, table.pstates_ghz[j], *map(float, values))
            between = paths.get((reference, j), ())[1:-1]
            via = " ".join(str(table.pstates_ghz[k]) for k in between)
            yield (*row, via) if via_intermediate else row


def projected(matched: Matched, *, via_intermediate: bool) -> Projection:
    """All signatures over all P-states."""
    return project(matched.coefficients, matched.signatures, via_intermediate=via_intermediate)


def left_out(matched: Matched, projection: Projection) -> list[str]:
    """One line a P-state and reason that some applications have no projection for."""
    table = matched.coefficients
    missing: Counter[tuple[float, float, Status]] = Counter()
    for i, j in np.argwhere(~projection.available).tolist():
        status = Status(int(projection.status[i, j]))
        missing[matched.signatures[i].freq_ghz, table.pstates_ghz[j], status] += 1
    return [
        f"{matched.module}: {to_ghz} GHz is left out for {count} of {len(matched.signatures)} "
        f"applications, measured at {from_ghz} GHz: {status.text}"
        for (from_ghz, to_ghz, status), count in sorted(missing.items())
    ]

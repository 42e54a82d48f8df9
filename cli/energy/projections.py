"""`coplace energy project`: rows of a file, and what is left out of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.energy.adapters.errors_csv import errors_file, with_errors
from services.energy.adapters.matching import Matched
from shared.models.bridge import bridge
from shared.models.ear import project
from shared.models.own_history import with_history
from shared.models.projection import Projection, Status

COLUMNS = ("app_id", "module", "to_ghz", "time_s", "power_w", "energy_j")
VIA_COLUMN = "via_ghz"
BOUND_COLUMNS = tuple(f"{name}_{end}" for name in COLUMNS[-3:] for end in ("low", "high"))


def columns(*, via_intermediate: bool, interval: float | None) -> Sequence[str]:
    """Return the header of `rows`."""
    via = (VIA_COLUMN,) if via_intermediate else ()
    return (*COLUMNS, *via, *(() if interval is None else BOUND_COLUMNS))


def rows(
    matched: Matched,
    projection: Projection,
    *,
    via_intermediate: bool,
    interval: float | None = None,
) -> Iterator[Sequence[object]]:
    """Yield a row for each application and P-state that has a projection, in the order of the file.

    With `via_intermediate` a column has the P-states between, empty where there are none; with
    `interval` columns have what each value lies between with that probability, empty where nothing
    says how good the coefficients are.
    """
    table = matched.coefficients
    paths = bridge(table).paths if via_intermediate else {}
    energy_j = projection.energy_j
    bounds = None if interval is None else _bounds(projection, interval)
    for i, signature in enumerate(matched.signatures):
        reference = table.index_of(signature.freq_ghz)
        for j in np.flatnonzero(projection.available[i]).tolist():
            values = (projection.time_s[i, j], projection.power_w[i, j], energy_j[i, j])
            row = (signature.app_id, matched.module, table.pstates_ghz[j], *map(float, values))
            between = paths.get((reference, j), ())[1:-1]
            via = " ".join(str(table.pstates_ghz[k]) for k in between)
            limits = () if bounds is None else _cells(bounds[i, j])
            yield (*row, *((via,) if via_intermediate else ()), *limits)


def _bounds(projection: Projection, interval: float) -> NDArray[np.float64]:
    """Low and high of time, power and energy: shape (signatures, P-states, 6)."""
    low, high = (projection.at(0.5 + sign * interval / 2) for sign in (-1, 1))
    ends = zip(
        (low.time_s, low.power_w, low.energy_j),
        (high.time_s, high.power_w, high.energy_j),
        strict=True,
    )
    return np.stack(list(chain.from_iterable(ends)), axis=-1)


def _cells(values: NDArray[np.float64]) -> list[float | str]:
    return ["" if np.isnan(value) else value for value in values.tolist()]


def with_errors_beside(
    several: Sequence[Matched], files: Sequence[Path]
) -> tuple[list[Matched], list[str]]:
    """Add to coefficients the errors in the file beside each; return a note for each
    without one.

    Raises OSError and RejectedError for errors that cannot be read.
    """
    found, notes = [], []
    for matched, path in zip(several, map(errors_file, files), strict=True):
        if path.exists():
            found.append(replace(matched, coefficients=with_errors(matched.coefficients, path)))
        else:
            found.append(matched)
            notes.append(f"{matched.module}: without {path} its projections have no interval")
    return found, notes


def project_all(matched: Matched, *, via_intermediate: bool) -> Projection:
    """Project all signatures over all P-states, blended with what applications that were measured
    at several show of themselves."""
    found = project(matched.coefficients, matched.signatures, via_intermediate=via_intermediate)
    return with_history(found, matched.signatures, matched.known)


def describe_gaps(matched: Matched, projection: Projection) -> list[str]:
    """Return one line for each P-state and reason that some applications have no projection for."""
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

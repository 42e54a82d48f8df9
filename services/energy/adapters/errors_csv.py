"""Tables of errors as `coplace energy learn` writes them beside the coefficients."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from coplace_client.checks import require_not_negative
from services.energy.adapters.coefficients_csv import SUFFIX
from shared.domain.coefficients import MOST_SD, Coefficients, Uncertainty
from shared.process.rows import FileRow, read_rows

COLUMNS: Final = ("from_ghz", "to_ghz", "time_left_out", "power_left_out")
# As `coplace energy learn` writes it.
_INFINITE: Final = "inf"


def errors_file(coefficients: Path) -> Path:
    """Return the file of the errors of a table of coefficients, in its own folder."""
    return coefficients.with_name(f"{coefficients.stem.removesuffix(SUFFIX)}_errors.csv")


def with_errors(coefficients: Coefficients, path: Path) -> Coefficients:
    """Return coefficients with the errors of a file, unknown for pairs that it does not have.

    Raises OSError, and RejectedError for a bad value and for a P-state that is not in the table.
    """
    shape = coefficients.available.shape
    time_sd, power_sd = np.full(shape, np.nan), np.full(shape, np.nan)
    np.fill_diagonal(time_sd, 0.0)
    np.fill_diagonal(power_sd, 0.0)
    for row in read_rows(path, COLUMNS):
        pair = _index(coefficients, row, "from_ghz"), _index(coefficients, row, "to_ghz")
        time_sd[pair] = _deviation(row, "time_left_out")
        power_sd[pair] = _deviation(row, "power_left_out")
    return replace(coefficients, uncertainty=Uncertainty(time_sd, power_sd))


def _index(coefficients: Coefficients, row: FileRow, field: str) -> int:
    with row.named():
        return coefficients.index_of(row.number_of(field))


def _deviation(row: FileRow, field: str) -> float:
    """Empty where the pair was refused, infinite where too few kernels say anything."""
    if row.text(field, _INFINITE) == _INFINITE:
        return math.nan
    return min(row.check(field, row.number_of(field), require_not_negative), MOST_SD)

"""Coefficient tables of the published form: one row an ordered pair of P-states.

The columns are those of IEEE DataPort 10.21227/e02v-y602, and `tpi_scale`, which names the unit
of TPI. A file without it is in the unit of the published ones.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from coplace_client.checks import require_finite, require_positive
from coplace_client.errors import RejectedError
from shared.domain import eamc_source
from shared.domain.coefficients import Coefficients, Mask, Matrix
from shared.process.folders import write_csv
from shared.process.rows import FileRow, read_rows

SUFFIX: Final = "_coefficients"
LETTERS: Final = "ABCDEF"
REQUIRED: Final = ("from_ghz", "to_ghz", *LETTERS, "available")
COLUMNS: Final = ("from_idx", "to_idx", *REQUIRED, "tpi_scale")


def read_coefficients_file(path: Path, node_model: str = "") -> Coefficients:
    """Read the coefficients of one node model, which by default has the name of the file.

    A pair without a row was never measured. Raises OSError when the file cannot be read and
    RejectedError, which names row and column, when it is not of this form.
    """
    rows = read_rows(path, REQUIRED)
    pairs = [_pair(row) for row in rows]
    pstates_ghz = tuple(sorted({ghz for pair in pairs for ghz in pair}))
    size = len(pstates_ghz)
    table, available = np.zeros((len(LETTERS), size, size)), np.zeros((size, size), dtype=np.bool_)
    index = {ghz: number for number, ghz in enumerate(pstates_ghz)}
    for row, at in zip(rows, _once(rows, pairs), strict=True):
        cell = index[at[0]], index[at[1]]
        table[:, cell[0], cell[1]] = [_coefficient(row, letter) for letter in LETTERS]
        available[cell] = _is_available(row)
    _require_identity(path, pstates_ghz, table, available)
    matrices: dict[str, Matrix] = dict(zip(LETTERS.lower(), table, strict=True))
    return Coefficients(
        node_model=node_model or path.stem.removesuffix(SUFFIX),
        version=path.name,
        tpi_scale=_scale(rows),
        pstates_ghz=pstates_ghz,
        **matrices,
        available=available,
        uncertainty=None,
    )


def write_coefficients_file(path: Path, coefficients: Coefficients) -> None:
    """Write a table that `read_coefficients_file` reads back to the last digit."""
    write_csv(path, COLUMNS, _lines(coefficients))


def _lines(c: Coefficients) -> Iterator[Sequence[object]]:
    matrices = [getattr(c, letter.lower()) for letter in LETTERS]
    for i, from_ghz in enumerate(c.pstates_ghz):
        for j, to_ghz in enumerate(c.pstates_ghz):
            values = [float(matrix[i, j]) for matrix in matrices]
            yield i, j, from_ghz, to_ghz, *values, int(c.available[i, j]), c.tpi_scale


def _pair(row: FileRow) -> tuple[float, float]:
    from_ghz, to_ghz = (
        row.check(field, row.number_of(field), require_positive) for field in ("from_ghz", "to_ghz")
    )
    return from_ghz, to_ghz


def _once(
    rows: Sequence[FileRow], pairs: Sequence[tuple[float, float]]
) -> Iterator[tuple[float, float]]:
    seen = set()
    for row, pair in zip(rows, pairs, strict=True):
        if pair in seen:
            raise RejectedError("to_ghz", f"{pair[0]} to {pair[1]} GHz again in {row.where}")
        seen.add(pair)
        yield pair


def _coefficient(row: FileRow, letter: str) -> float:
    """Require finite values where the pair was measured; the value where it was not says
    nothing."""
    if _is_available(row):
        return row.check(letter, row.number_of(letter), require_finite)
    return 0.0


def _is_available(row: FileRow) -> bool:
    value = row.number_of("available")
    if value not in (0, 1):
        raise RejectedError("available", f"must be 0 or 1, got {value:g} in {row.where}")
    return value == 1


def _scale(rows: Sequence[FileRow]) -> str:
    scales = sorted({row.text("tpi_scale", eamc_source.TPI_SCALE) for row in rows})
    if len(scales) > 1:
        raise RejectedError("tpi_scale", f"{rows[0].path} mixes {' and '.join(scales)}: keep one")
    return scales[0]


def _require_identity(
    path: Path, pstates_ghz: tuple[float, ...], table: Matrix, available: Mask
) -> None:
    for i in np.flatnonzero(available.diagonal()).tolist():
        if table[:, i, i].tolist() != [1, 0, 0, 1, 0, 0]:
            problem = f"{pstates_ghz[i]} GHz must project to itself as it is in {path}"
            raise RejectedError("A to F", problem)

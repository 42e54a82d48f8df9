"""Small files of the forms that operators have."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

PAIR: Final = {"A": 1.0, "B": 0.0, "C": 0.0, "D": 1.0, "E": 0.0, "F": 0.0, "available": 1}
APP: Final = {
    "app_id": "a",
    "module_idx": "0",
    "module": "m",
    "time_s": 10.0,
    "dc_node_power_w": 300.0,
    "cpi": 0.5,
    "tpi": 2.0,
}


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """A table with the columns of its first row."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def read(path: Path) -> list[dict[str, str]]:
    """All rows of a table."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def pairs(
    changes: Mapping[str, object] | None = None, pstates_ghz: Sequence[float] = (1.0, 2.0)
) -> list[dict[str, object]]:
    """A table of coefficients; `changes` to the pair from the highest to the lowest P-state."""
    top, low = pstates_ghz[-1], pstates_ghz[0]
    return [
        {"from_ghz": i, "to_ghz": j, **PAIR, **((changes or {}) if (i, j) == (top, low) else {})}
        for i in pstates_ghz
        for j in pstates_ghz
    ]


def apps(*changes: Mapping[str, object]) -> list[dict[str, object]]:
    """A table of signatures: one row for each dictionary of changes."""
    return [{**APP, **each} for each in changes or ({},)]

"""Published coefficients, read from files."""

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from services.energy.model import Fit
from services.energy.processor.learner import Imported
from shared.domain import eamc_source


def read_coefficients(folder: Path) -> Mapping[str, Imported]:
    """The coefficients of every node model in a folder of `{module}_coefficients.csv`.

    Raises OSError when a file cannot be read and ValueError when it is not of this form.
    """
    return {
        node_model: Imported(eamc_source.TPI_SCALE, _read(folder / f"{module}_coefficients.csv"))
        for module, node_model in eamc_source.NODE_MODEL_OF_MODULE.items()
    }


def _read(path: Path) -> Fit:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    try:
        pstates = sorted({float(row["from_ghz"]) for row in rows})
        table = np.zeros((len(pstates), len(pstates), 6))
        available = np.eye(len(pstates), dtype=np.bool_)
        for row in rows:
            pair = pstates.index(float(row["from_ghz"])), pstates.index(float(row["to_ghz"]))
            table[pair] = [float(row[column]) for column in "ABCDEF"]
            available[pair] = row["available"] == "1"
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{path} must have the columns from_ghz, to_ghz, A to F and available, and a row for "
            f"every pair of P-states: {error!r}"
        ) from error
    return Fit(tuple(pstates), table[..., :3], table[..., 3:], available, 0.0, 0.0, kernels=0)

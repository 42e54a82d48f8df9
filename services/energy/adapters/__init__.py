"""Files: coefficients, signatures and EAR's own reports."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from services.energy.adapters.coefficients_csv import read_coefficients_file
from services.energy.model import Fit
from services.energy.processor.learner import Imported
from shared.domain import eamc_source
from shared.domain.coefficients import Coefficients


def read_coefficients(folder: Path) -> Mapping[str, Imported]:
    """The coefficients of every node model in a folder of `{module}_coefficients.csv`.

    Raises OSError when a file cannot be read and ValueError when it is not of this form.
    """
    return {
        node_model: _imported(read_coefficients_file(folder / f"{module}_coefficients.csv"))
        for module, node_model in eamc_source.NODE_MODEL_OF_MODULE.items()
    }


def _imported(c: Coefficients) -> Imported:
    power, cpi = np.stack([c.a, c.b, c.c], axis=-1), np.stack([c.d, c.e, c.f], axis=-1)
    return Imported(c.tpi_scale, Fit(c.pstates_ghz, power, cpi, c.available, 0.0, 0.0, kernels=0))

"""Files: coefficients, signatures and EAR's own reports."""

from collections.abc import Mapping
from pathlib import Path

from coplace_client.errors import RejectedError
from services.energy.adapters.coefficients_csv import SUFFIX, read_coefficients_file
from services.energy.processor.learner import Imported
from shared.domain.eamc_source import NODE_MODEL_OF_MODULE


def read_coefficients(folder: Path) -> Mapping[str, Imported]:
    """Read the coefficients of every node model in a folder of `{module}_coefficients.csv`: a
    module is a node model, but for the names of the published ones.

    Raises OSError when a file cannot be read and RejectedError when it is not of this form, or
    there is none.
    """
    files = {path.stem.removesuffix(SUFFIX): path for path in folder.glob(f"*{SUFFIX}.csv")}
    if not files:
        raise RejectedError(str(folder), f"holds no file called NODE_MODEL{SUFFIX}.csv")
    return {
        NODE_MODEL_OF_MODULE.get(module, module): Imported.from_coefficients(
            read_coefficients_file(files[module])
        )
        for module in sorted(files)
    }

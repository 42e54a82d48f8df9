"""The published data, in the folder that COPLACE_DATA names."""

import os
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
DATA: Final = ROOT / os.environ.get("COPLACE_DATA", "../shared/data")

# The fixture skips a test where the data is not there.
needs_data = pytest.mark.usefixtures("data_dir")

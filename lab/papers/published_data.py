"""The published data, in the folder that COPLACE_DATA names."""

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
DATA: Final = ROOT / os.environ.get("COPLACE_DATA", "../shared/data")

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of published data; where CI runs it is always there."""
    folder = ROOT / os.environ.get("COPLACE_DATA", "../shared/data")
    if not folder.is_dir() and os.environ.get("CI") != "true":
        pytest.skip(f"no published data at {folder}: set COPLACE_DATA to its folder")
    return folder

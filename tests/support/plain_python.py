"""Runs tests where nothing is compiled."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.snippets import REPOSITORY


def run_as_plain_python(folder: Path, *paths: str) -> subprocess.CompletedProcess[str]:
    """Run tests, by their paths in the repository, on a copy without compiled modules."""
    without = shutil.ignore_patterns("*.so", "__pycache__")
    for name in ("proto", "shared", "tests"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=without)
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    first = os.pathsep.join(map(str, (folder, REPOSITORY, REPOSITORY / "client")))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": first, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )

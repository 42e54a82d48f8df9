"""The schedulers are compiled where they are tested, and are the same as plain Python."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[4]
_SCHEDULERS = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["coplace"]["compiled"]


@pytest.mark.parametrize("scheduler", _SCHEDULERS)
def test_a_scheduler_s_module_is_compiled(scheduler: str) -> None:
    source = _ROOT / scheduler
    compiled = source.parent.glob(f"{source.stem}.*.so")
    assert list(compiled), f"{scheduler} was not compiled: install gcc, then make clean setup"


@pytest.mark.thorough
def test_the_schedulers_pass_their_tests_as_plain_python_too(tmp_path: Path) -> None:
    here = Path(__file__).relative_to(_ROOT)
    without = shutil.ignore_patterns("*.so")
    for folder in ("shared", "tests/support", "tests/unit/shared/models", here.parent):
        shutil.copytree(_ROOT / folder, tmp_path / folder, ignore=without)
    for file in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(_ROOT / file, tmp_path / file)
    (tmp_path / here).unlink()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(here.parent)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout

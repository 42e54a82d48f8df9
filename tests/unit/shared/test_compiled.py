"""What decides is compiled where it is tested, and is the same as plain Python."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_COMPILED = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["coplace"]["compiled"]
_TESTED = ("tests/unit/shared/scheduling", "tests/unit/shared/placement")


def test_a_module_that_decides_is_compiled() -> None:
    for module in _COMPILED:
        source = _ROOT / module
        compiled = source.parent.glob(f"{source.stem}.*.so")
        assert list(compiled), f"{module} was not compiled: install gcc, then make clean setup"


@pytest.mark.thorough
def test_what_is_compiled_passes_its_tests_as_plain_python_too(tmp_path: Path) -> None:
    without = shutil.ignore_patterns("*.so")
    for folder in ("proto", "shared", "tests"):
        shutil.copytree(_ROOT / folder, tmp_path / folder, ignore=without)
    shutil.copy(_ROOT / "pyproject.toml", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *_TESTED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout

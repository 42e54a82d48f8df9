"""What decides is compiled where it is tested, and is the same as plain Python."""

import tomllib
from pathlib import Path

import pytest

from tests.support.plain_python import run_as_plain_python

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
    done = run_as_plain_python(tmp_path, *_TESTED)
    assert done.returncode == 0, done.stdout

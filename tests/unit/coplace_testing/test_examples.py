"""The tests that docs/how-to/test-against-coplace.md prints pass as they are pasted, and need
nothing else of Coplace."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.snippets import HOW_TO, programs, write_programs

PAGE = HOW_TO / "test-against-coplace.md"
EXAMPLES = programs(PAGE)


def imported(source: str) -> Iterator[str]:
    """The packages that a program imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_needs_messages_and_the_region_alone(name: str) -> None:
    own = {*imported(EXAMPLES[name])} - sys.stdlib_module_names
    assert own <= {"coplace", "coplace_testing", "pytest"}


# Each of them is a run of pytest, and one is twice 200 jobs.
@pytest.mark.rest
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_passes_as_it_is_pasted(name: str, tmp_path: Path) -> None:
    write_programs(PAGE, tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_page_says_how_to_run_all_of_them() -> None:
    assert f"python -m pytest {' '.join(EXAMPLES)}\n" in PAGE.read_text()

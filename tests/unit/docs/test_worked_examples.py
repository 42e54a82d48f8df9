"""The worked examples of CONTRIBUTING are made as they are pasted, and do what their pages say."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.examples import apply
from tests.support.snippets import HOW_TO, REPOSITORY, blocks

_COPIED: Final = (
    *("agent", "cli", "client", "coplace_testing", "deploy", "docs", "helm", "lab", "proto"),
    *("services", "shared", "tests"),
)
_PAGES: Final = sorted(HOW_TO.glob("add-*.md"))
_TARGETS: Final = {
    "make proto": "deploy/generate-proto.sh client",
    "make settings": "python -m deploy.policy_documents",
}
# What is done to the whole project anyway, and what is of no use where nothing is compiled.
_LEFT_OUT: Final = ("make lint", "find shared ")
_COPLACE: Final = "from cli.main import app; app()"


class Step(NamedTuple):
    """What is typed, and lines of what it prints."""

    lines: list[str]
    printed: list[str]


def steps(page: Path) -> Iterator[Step]:
    """What a page has its readers type."""
    every = blocks(page)
    for block, behind in zip(every, [*every[1:], None], strict=True):
        if block.is_shell:
            shown = behind.text if behind and behind.language == "text" else ""
            lines = [line for line in block.text.splitlines() if not line.startswith(_LEFT_OUT)]
            yield Step(lines, shown.splitlines())


def typed(line: str, folder: Path, code: Path) -> str:
    """What a line prints in a folder, with the code of another one."""
    name, *words = shlex.split(_TARGETS.get(line, line))
    programs = {"python": [sys.executable], "coplace": [sys.executable, "-c", _COPLACE]}
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    path = os.pathsep.join(str(code / each) for each in ("", "client", "agent"))
    done = subprocess.run(
        [*programs.get(name, [name]), *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PATH": tools},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def copied(folder: Path) -> Path:
    """A copy of the project without compiled modules: what is changed there counts at once."""
    for name in _COPIED:
        ignored = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignored)
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    return folder


# Two to twenty seconds of CPU each.
@pytest.mark.rest
@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.stem)
def test_an_example_works_as_it_is_pasted(page: Path, tmp_path: Path) -> None:
    changes_code = any(block.language == "diff" for block in blocks(page))
    code = copied(tmp_path) if changes_code else REPOSITORY
    apply(page, tmp_path)
    for step in steps(page):
        printed = "".join(typed(line, tmp_path, code) for line in step.lines)
        assert [line for line in step.printed if line not in printed] == [], printed

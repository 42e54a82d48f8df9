"""What no user should give a command, and how a command must not end."""

import gzip
import os
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import typer
from typer.testing import CliRunner

from cli.main import app

NUMBERS: Final = ("", "-1", "0", "nan", "inf", "1e308", "9" * 30)
# Made once: thousands of attacks would spend a third of their time on making it anew.
_COMMAND: Final = typer.main.get_command(app)
TEXTS: Final = ("", "nope", "jobs.events/99/-1", "\udcff")
FILES: Final = ("missing", "folder", "empty", "junk", "zeros.gz", "text")


def write_files(folder: Path) -> None:
    """All of FILES but the missing one."""
    (folder / "folder").mkdir()
    (folder / "empty").touch()
    (folder / "junk").write_bytes(os.urandom(4_096) + b"\n,;\x00\xff")
    (folder / "zeros.gz").write_bytes(gzip.compress(bytes(4 << 20), 1))
    (folder / "laughs.yaml").write_text("a: &a [b]\nclusters: [*a, *a]\n")
    (folder / "text").write_text("app_id,module\n1\n")


def options_of(command: Any) -> Iterator[tuple[Any, Sequence[str]]]:
    """Each option and argument of a command with the hostile values of its type."""
    for each in command.params:
        kind = str(each.type_descriptor.annotation)
        if "Path" in kind:
            yield each, FILES
        elif "str" in kind:
            yield each, (*TEXTS, *FILES)
        elif "int" in kind or "float" in kind:
            yield each, NUMBERS
        elif "bool" not in kind:
            yield each, ("", "nope")


def given(option: Any, value: str) -> list[str]:
    """The words that give an option or argument a value."""
    return [option.opts[-1], value] if option.opts[0].startswith("-") else [value]


def problem_of(words: Sequence[str]) -> str | None:
    """What is wrong with how a command ends, None where nothing is."""
    with patch("typer.testing._get_command", return_value=_COMMAND):
        result = CliRunner().invoke(app, list(words))
    found = result.exception
    if found is not None and not isinstance(found, SystemExit):
        return f"{words}: {''.join(traceback.format_exception(found)[-3:])}"
    if result.exit_code == 1 and not result.stderr.splitlines()[-1].startswith("error: "):
        return f"{words}: {result.output}"
    return None


def problems_of(attacks: Iterator[list[str]]) -> str:
    """What is wrong with how any of these commands ends."""
    return "\n".join(problem for words in attacks if (problem := problem_of(words)))

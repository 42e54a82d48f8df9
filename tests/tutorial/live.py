"""`make type-along`: types the lines of docs/type-along.md into one shell, on real services, and
puts what they print into the page."""

import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.reader import Reader
from tests.support.snippets import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "type-along.md"
_PROMPT: Final = "$ "
_BLOCK: Final = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_FOLDER: Final = "/home/olga/.local/state"
_OPERATOR: Final = "olga@login1"
# What differs from run to run: numbers, clusters that are chosen, who types, and spaces around.
_CHANGES: Final = (
    (re.compile(r"\S+@[\w.-]*\w"), "who"),
    (re.compile(r"^ +/\S+$", re.MULTILINE), "folder"),
    (re.compile(r"\d[\d.,:TZ]*"), "0"),
    (re.compile(r"0-0-0|-0\b"), "0"),
    (re.compile(r" +"), " "),
)


def typed(text: str) -> list[str]:
    """The lines that a page has its readers type, in their order."""
    blocks = "".join(_BLOCK.findall(text))
    return [line.removeprefix(_PROMPT) for line in blocks.splitlines() if _is_typed(line)]


def play(lines: list[str], reader: Reader) -> Iterator[tuple[str, str]]:
    """Type lines into one shell of a reader, and yield each with what it prints."""
    (reader.folder / "examples").symlink_to(REPOSITORY / "examples")
    said = "".join(f"echo {shlex.quote(_PROMPT + line)}\n{line}\n" for line in lines)
    done = reader.paste(said)
    assert done.returncode == 0, done.stdout + done.stderr
    rest = done.stdout
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        _, _, rest = rest.partition(f"{_PROMPT}{line}\n")
        end = rest.index(f"{_PROMPT}{following}\n") if following is not None else len(rest)
        yield line, _plain(rest[:end].replace(str(reader.state), _FOLDER))
        rest = rest[end:]


def shown(text: str) -> list[tuple[str, str]]:
    """What a page has its readers type, each line with what the page shows of its output."""
    found: list[tuple[str, str]] = []
    for line in "".join(_BLOCK.findall(text)).splitlines():
        if _is_typed(line):
            found.append((line.removeprefix(_PROMPT), ""))
        else:
            command, before = found.pop()
            found.append((command, f"{before}{line}\n"))
    return found


def shape(output: str) -> list[str]:
    """What stays of an output from run to run: of a row of a table its name alone."""
    for pattern, written in _CHANGES:
        output = pattern.sub(written, output)
    lines = output.strip().splitlines()
    is_row = False
    found = []
    for line in lines:
        found.append(line.split("|")[1] if is_row and line.startswith("|") else line)
        is_row = line.startswith("|-") or (is_row and line.startswith("|"))
    return [line.strip() for line in found if not line.startswith("|-")]


def rewritten(text: str, outputs: dict[int, str]) -> str:
    """The page with what its lines print, by their number."""
    number = iter(range(len(outputs)))

    def block(match: re.Match[str]) -> str:
        lines = [line for line in match[0].splitlines() if _is_typed(line)]
        return "".join(f"{line}\n{outputs[next(number)]}" for line in lines)

    return _BLOCK.sub(block, text)


def _is_typed(line: str) -> bool:
    return line.startswith(_PROMPT)


def _plain(output: str) -> str:
    """Without the space around tables."""
    lines = (line.rstrip() for line in output.splitlines())
    return "".join(f"{line}\n" for line in lines if line)


def main() -> None:
    """Write the page anew."""
    text = PAGE.read_text()
    with tempfile.TemporaryDirectory() as scratch:
        reader = Reader(Path(scratch))
        reader.environment["COPLACE_SOURCE"] = _OPERATOR
        try:
            played = play(typed(text), reader)
            outputs = {number: output for number, (_, output) in enumerate(played)}
        finally:
            reader.paste("coplace down --delete")
    PAGE.write_text(rewritten(text, outputs))
    sys.stdout.write(f"{PAGE}: {len(outputs)} lines were typed\n")


if __name__ == "__main__":
    main()

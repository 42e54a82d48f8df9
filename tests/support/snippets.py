"""What documents print to be copied: what people paste is what the tests run."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
HOW_TO: Final = REPOSITORY / "docs" / "how-to"
_BLOCK: Final = re.compile(
    r'^```(?P<language>\w*)(?: title="(?P<name>[\w./-]+)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: a file to save under `name`, or lines without one."""

    language: str
    name: str
    text: str

    @property
    def is_shell(self) -> bool:
        """Whether it is lines for a shell, not a table that a command prints."""
        return not self.language and "┌" not in self.text


def blocks(document: Path) -> list[Block]:
    """The fenced blocks of a document in their order."""
    found = _BLOCK.finditer(document.read_text())
    return [Block(match["language"], match["name"] or "", match["text"]) for match in found]


def programs(document: Path, language: str = "python") -> dict[str, str]:
    """What a document has in a language, by the file name that it gives it."""
    titled = (one for one in blocks(document) if one.name and one.language == language)
    return {one.name: one.text for one in titled}


def write_programs(document: Path, folder: Path, language: str = "python") -> None:
    """Save what a document prints as its readers should."""
    for name, code in programs(document, language).items():
        (folder / name).write_text(code)

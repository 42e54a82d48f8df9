"""The programs and files that documents print: what people copy is what the tests run."""

import re
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
HOW_TO: Final = REPOSITORY / "docs" / "how-to"
_TITLED: Final = (
    r'^```{language} title="(?P<name>[\w.-]+)"\n(?P<code>.*?)^```$'  # from fence to fence
)


def programs(document: Path, language: str = "python") -> dict[str, str]:
    """What a document has in a language, by the file name that it gives it."""
    pattern = re.compile(_TITLED.format(language=language), re.MULTILINE | re.DOTALL)
    return {match["name"]: match["code"] for match in pattern.finditer(document.read_text())}


def write_programs(document: Path, folder: Path, language: str = "python") -> None:
    """Save what a document prints as it tells its readers to."""
    for name, code in programs(document, language).items():
        (folder / name).write_text(code)

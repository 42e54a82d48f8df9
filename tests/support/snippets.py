"""The programs that the how-tos print: what people copy is what the tests run."""

import re
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
HOW_TO: Final = REPOSITORY / "docs" / "how-to"
_PROGRAM: Final = re.compile(
    r'^```python title="(?P<name>[\w.]+)"\n(?P<code>.*?)^```$', re.MULTILINE | re.DOTALL
)


def programs(document: Path) -> dict[str, str]:
    """The programs of a how-to by the file name that it gives them."""
    return {match["name"]: match["code"] for match in _PROGRAM.finditer(document.read_text())}


def write_programs(document: Path, folder: Path) -> None:
    """Save the programs of a how-to as it tells its readers to."""
    for name, code in programs(document).items():
        (folder / name).write_text(code)

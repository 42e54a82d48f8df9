"""`python -m tests.support.examples PAGE`: makes the changes that a page of `docs/how-to` shows.

Titled blocks are saved under their names; diffs are given to `git apply`.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.snippets import REPOSITORY, blocks

_DIFF: Final = "diff"


def apply(document: Path, folder: Path) -> None:
    """Make the changes of a page in a folder. Raises CalledProcessError where a diff does not
    fit."""
    for block in blocks(document):
        if block.name:
            target = folder / block.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text)
        elif block.language == _DIFF:
            command = ["git", "apply", "-"]
            subprocess.run(command, cwd=folder, input=block.text, text=True, check=True)


if __name__ == "__main__":
    apply(Path(sys.argv[1]), REPOSITORY)

"""`python -m tests.support.paste`: does what a newcomer reads, top to bottom, in a fresh clone.

It prints how long each step took, and ends at the first one that fails.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.snippets import REPOSITORY, blocks

# What it is, and one job through it.
_PAGES: Final = (REPOSITORY / "README.md", REPOSITORY / "docs" / "first-job.md")
_CLOCK: Final = """\
times=
step() { printf '\\n== %s\\n' "$1"; title=$1; SECONDS=0; }
took() { times+=$(printf '%5d s  %s' "$SECONDS" "$title")$'\\n'; }
trap 'printf "\\n%s" "$times"; coplace down --delete >/dev/null 2>&1 || true' EXIT
"""


def steps() -> Iterator[str]:
    """What these pages have a newcomer type, block by block."""
    for page in _PAGES:
        yield from (block.text for block in blocks(page) if block.is_shell)


def script() -> str:
    """All steps for one shell, with a clock around each."""
    timed = (f"step {shlex.quote(text.splitlines()[0])}\n{text}took\n" for text in steps())
    return _CLOCK + "".join(timed)


def main() -> None:
    """Clone what is committed here, and paste into a shell there."""
    with tempfile.TemporaryDirectory() as scratch:
        clone = Path(scratch) / "coplace"
        subprocess.run(["git", "clone", "--quiet", REPOSITORY, clone], check=True)
        own = {name: value for name, value in os.environ.items() if "COPLACE" not in name}
        environment = {**own, "XDG_STATE_HOME": str(Path(scratch) / "state"), "COLUMNS": "80"}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script()], cwd=clone, env=environment, check=False
        )
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()

"""A reader with a shell, who types what documents say."""

import os
import subprocess
import sys
from pathlib import Path

from cli.installation.installation import Installation


class Reader:
    """Somebody with a shell in a folder, whose installation is none but this."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        kept = {name: value for name, value in os.environ.items() if "COPLACE" not in name}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        own = {"XDG_STATE_HOME": str(self.state), "PATH": path, "COLUMNS": "80"}
        # A price a second after the end of its job, in place of a minute.
        self.environment = {**kept, **own, "COPLACE_PRICING_GRACE_S": "1"}

    def paste(self, text: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Type it into a new shell."""
        return subprocess.run(
            ["bash", "-eu"],
            input=text,
            cwd=folder or self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=540,
        )

    @property
    def installation(self) -> Installation:
        """What it started."""
        return Installation(self.state / "coplace" / "installation")

"""What a folder remembers of the installation in it, and which folder is this user's."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Self

from coplace_client.files import write_whole

_FILE: Final = "installation.json"
# A link in the state folder to the folder that was used last.
_LAST: Final = "last"


def state_dir() -> Path:
    """Return the project's folder below the user's state folder; it may not exist yet."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "coplace"


def last_folder() -> Path:
    """Return the folder that `coplace up` used last; before the first time, the one that it will
    use."""
    link = state_dir() / _LAST
    return link.resolve() if link.is_symlink() else state_dir() / "installation"


def remember_folder(folder: Path) -> None:
    """Make this the folder that commands use from now on."""
    with write_whole(state_dir() / _LAST) as fresh:
        fresh.symlink_to(folder)


def forget_folder() -> None:
    """Let the next start choose its folder anew."""
    (state_dir() / _LAST).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class InstallationRecord:
    """How to reach an installation, as COPLACE_* variables, and since when it is up, in
    microseconds since 1970: 0 while it is stopped, or not whole yet."""

    environment: Mapping[str, str] = field(default_factory=dict)
    up_since_us: int = 0

    def save(self, folder: Path) -> None:
        """Write it whole or not at all."""
        with write_whole(folder / _FILE) as fresh:
            fresh.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read it; one of nothing if nothing was ever started in the folder."""
        file = folder / _FILE
        return cls(**json.loads(file.read_text())) if file.exists() else cls()

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Return whether something was ever started in the folder."""
        return (folder / _FILE).exists()

"""Where what was fetched or built once is kept for the next time."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return the project's folder below the user's cache folder; it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coplace"

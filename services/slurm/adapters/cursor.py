"""How far decisions are obeyed, kept in a file."""

from pathlib import Path

from coplace_client.files import write_whole


class CursorFile:
    """Of one resource manager. Without the file, or without what it held, all decisions that are
    kept are read again: each job says itself which of them it has obeyed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = ""

    def read(self) -> str:
        """Return the cursor; empty where there is none. Raises OSError."""
        try:
            self._kept = self._path.read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            self._kept = ""
        return self._kept

    def keep(self, cursor: str) -> None:
        """Keep another cursor. Raises OSError."""
        if cursor == self._kept:
            return
        with write_whole(self._path) as fresh:
            fresh.write_text(f"{cursor}\n", encoding="utf-8")
        self._kept = cursor

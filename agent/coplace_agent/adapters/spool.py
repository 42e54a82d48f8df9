"""Events on disk until ingest has acknowledged them."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope

_WRITING: Final = ".writing"
_EVENT: Final = ".event"


class Spool:
    """A folder with a file for each event, whole or not there, in the order in which they came."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        """Raises OSError. What a kill cut short is removed: it was never acknowledged."""
        self._folder = folder
        self._refused = folder / "refused"
        self._refused.mkdir(parents=True, exist_ok=True)
        for path in folder.glob(f"*{_WRITING}"):
            path.unlink()
        self._most_bytes = most_bytes
        # One thread adds, another acknowledges.
        self._lock = threading.Lock()
        self._bytes = sum(path.stat().st_size for path in folder.rglob(f"*{_EVENT}"))
        self._next = 1 + max((int(path.stem) for path in folder.rglob(f"*{_EVENT}")), default=0)

    @property
    def is_full(self) -> bool:
        """Return whether so much waits, refused events too, that nothing more may be added."""
        return self._bytes >= self._most_bytes

    def add(self, event: Envelope) -> None:
        """Returns when the event outlives any crash. Raises OSError."""
        data = event.SerializeToString()
        path = self._folder / f"{self._next:020}{_EVENT}"
        fresh = path.with_suffix(_WRITING)
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        self._sync()
        self._next += 1
        with self._lock:
            self._bytes += len(data)

    def waiting(self) -> Iterator[tuple[Path, Envelope]]:
        """Yield the events that ingest has not acknowledged, the oldest first."""
        for path in sorted(self._folder.glob(f"*{_EVENT}")):
            yield path, Envelope.FromString(path.read_bytes())

    def __len__(self) -> int:
        return sum(1 for _ in self._folder.glob(f"*{_EVENT}"))

    def acknowledged(self, path: Path) -> None:
        """Remove an event that ingest has. Killed before, the agent sends it again: a copy."""
        with self._lock:
            self._bytes -= path.stat().st_size
        path.unlink()

    def refused(self, path: Path) -> None:
        """Keep for an operator an event that ingest will never take, so that it delays no other."""
        path.rename(self._refused / path.name)

    def _sync(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

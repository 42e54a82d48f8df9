"""What was said of jobs that wait, kept in a file: a process that is started knows by it what was
changed while none was there."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from coplace_client.files import write_whole
from services.slurm.model.changes import WaitingTerms

# A file of so many lines more than there are jobs is written anew.
_MOST_OLD: Final = 1_000


class TermsFile:
    """A line for each change, of which the last of a job counts. Without the file all that waits is
    submitted as of when the process began."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: Mapping[str, WaitingTerms] = {}
        self._lines = 0

    def read(self) -> Mapping[str, WaitingTerms]:
        """Return what is kept, by the ids of jobs. Raises OSError."""
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        found: dict[str, WaitingTerms] = {}
        for line in lines:
            _apply(line, found)
        self._kept, self._lines = dict(found), len(lines)
        return found

    def doubt(self, known: Mapping[str, WaitingTerms]) -> None:
        """Forget jobs of which something else is being said: until that was heard, nobody knows
        what was. Raises OSError."""
        doubted = [name for name, each in self._kept.items() if each != known.get(name)]
        if doubted:
            self._append([[name] for name in doubted])
            self._kept = {
                name: each for name, each in self._kept.items() if each == known.get(name)
            }

    def keep(self, known: Mapping[str, WaitingTerms]) -> None:
        """Keep what was said of the jobs that wait now. Raises OSError."""
        kept = self._kept
        changed = {name: each for name, each in known.items() if each != kept.get(name)}
        rows = [[name, *each] for name, each in changed.items()]
        rows += [[name] for name in kept if name not in known]
        if not rows:
            return
        if self._lines + len(rows) > 2 * len(known) + _MOST_OLD or not self._lines:
            rows = [[name, *each] for name, each in known.items()]
            with write_whole(self._path) as fresh:
                fresh.write_text(_lines(rows), encoding="utf-8")
            self._lines = len(rows)
        else:
            self._append(rows)
        self._kept = dict(known)

    def _append(self, rows: list[list[Any]]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_lines(rows))
        self._lines += len(rows)


def _lines(rows: list[list[Any]]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def _apply(line: str, found: dict[str, WaitingTerms]) -> None:
    """Apply a line; one that was not written to its end is none."""
    try:
        name, *said = json.loads(line)
        if said:
            found[name] = WaitingTerms(*said)
        else:
            found.pop(name, None)
    except (ValueError, TypeError):
        return

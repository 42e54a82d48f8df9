"""The one line of a log that says why a process ended or does not go on."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_LONGEST: Final = 300
# What is looked through, from the end.
_BYTES: Final = 200_000
_RAISED: Final = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt): ")


def decisive_line(log: Path, from_byte: int = 0) -> str:
    """Return the line that matters of what a log holds from a byte on: the last that ends a process
    or reports an error, else the last at all; empty where there is none."""
    lines = _lines(log, from_byte)
    found = (_last(lines, worth) for worth in (_is_end, _is_error, bool))
    return next(filter(None, found), "")[:_LONGEST]


def log_size(log: Path) -> int:
    """Return its bytes; 0 where there is none yet."""
    return log.stat().st_size if log.exists() else 0


def _lines(log: Path, from_byte: int) -> list[str]:
    size = log_size(log)
    if size <= from_byte:
        # It was begun anew, or nothing was added.
        from_byte = 0 if size < from_byte else size
    if not size:
        return []
    with log.open("rb") as file:
        file.seek(max(from_byte, size - _BYTES))
        return file.read().decode(errors="replace").splitlines()


def _last(lines: Sequence[str], worth: Any) -> str:
    return next((_words(line) for line in reversed(lines) if worth(line.strip())), "")


def _is_end(line: str) -> bool:
    return line.startswith("error: ") or _level(line) == "critical"


def _is_error(line: str) -> bool:
    return _level(line) == "error" or _RAISED.match(line) is not None


def _level(line: str) -> str:
    return str(_fields(line).get("level", ""))


def _words(line: str) -> str:
    """Return a line as people read it: of one in JSON the event and what caused it."""
    fields = _fields(line)
    if not fields:
        return line.strip().removeprefix("error: ")
    cause = fields.get("problem") or fields.get("error") or fields.get("waiting_for")
    return ": ".join(str(each) for each in (fields.get("event"), cause) if each)


def _fields(line: str) -> dict[str, Any]:
    if not line.startswith("{"):
        return {}
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        return {}
    return found

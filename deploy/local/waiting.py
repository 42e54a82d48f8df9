"""Waiting for something to become true, with an error that names the log when it does not."""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from deploy.local.errors import NotReadyError
from deploy.local.log_lines import decisive_line, log_size

_POLL_S = 0.05


def wait_until(happens: Callable[[], bool], timeout_s: float, what: str, log: Path) -> None:
    """Poll until `happens`. Raises NotReadyError when the time is over, with the line of `log`
    that matters since then."""
    deadline_s, from_byte = time.monotonic() + timeout_s, log_size(log)
    while not happens():
        if time.monotonic() > deadline_s:
            raise not_ready(f"{what} not within {timeout_s:g} s", log, from_byte)
        time.sleep(_POLL_S)


def not_ready(problem: str, log: Path, from_byte: int = 0) -> NotReadyError:
    """Return the error that names the problem, the line of the log that matters, and the log."""
    line = decisive_line(log, from_byte) or "nothing was written"
    return NotReadyError(f"{problem}: {line} (log: {log})")


def last_lines(log: Path, count: int) -> str:
    """Return the last `count` lines of a log; empty if there is none yet."""
    if not log.exists():
        return ""
    with log.open(errors="replace") as lines:
        return "".join(deque(lines, maxlen=count))

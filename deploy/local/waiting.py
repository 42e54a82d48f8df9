"""Waiting for something to become true, with an error that shows the log when it does not."""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from deploy.local.errors import NotReadyError

_POLL_S = 0.05
_SHOWN_LINES = 30


def wait_until(happens: Callable[[], bool], timeout_s: float, what: str, log: Path) -> None:
    """Poll until `happens`. Raises NotReadyError with the end of `log` when the time is over."""
    deadline_s = time.monotonic() + timeout_s
    while not happens():
        if time.monotonic() > deadline_s:
            raise not_ready(f"{what} within {timeout_s:g} s: did not happen", log)
        time.sleep(_POLL_S)


def not_ready(problem: str, log: Path) -> NotReadyError:
    """Return the error that names the problem and shows the last lines of the log."""
    return NotReadyError(f"{problem}. The end of {log}:\n{last_lines(log, _SHOWN_LINES)}")


def last_lines(log: Path, count: int) -> str:
    """Return the last `count` lines of a log; empty if there is none yet."""
    if not log.exists():
        return ""
    with log.open(errors="replace") as lines:
        return "".join(deque(lines, maxlen=count))

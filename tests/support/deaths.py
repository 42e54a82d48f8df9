"""Deaths without an exception: real ones, and ones of workers that live in the test's process."""

import os
import signal
from typing import Final

SIMULATED: Final[set[int]] = set()
"""Processes in which workers only play that they are processes."""


class KilledError(BaseException):
    """Ends a worker in a process of `SIMULATED`: only the test that plays it catches this."""


def die() -> None:
    """End this process, or the worker that plays one, as the kernel does."""
    if os.getpid() in SIMULATED:
        raise KilledError
    os.kill(os.getpid(), signal.SIGKILL)

"""Processes that a test started, directly or not."""

import time
from collections.abc import Sequence

import psutil


def gone(processes: Sequence[psutil.Process], within_s: float) -> bool:
    """Whether all of them have ended, or do in time."""
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        if not any(lives(process) for process in processes):
            return True
        time.sleep(0.02)
    return False


def lives(process: psutil.Process) -> bool:
    """Whether it has not ended; one that only waits to be reaped has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

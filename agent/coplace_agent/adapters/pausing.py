"""Pausing and continuing jobs (algorithm 2, lines 1 to 5 and 7 to 12)."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from coplace_agent.adapters.processes import JobProcesses, stands_still
from coplace_agent.adapters.watchdog import Watchdog
from coplace_agent.watchdog import CGROUP, Target, resume, signal_process, write_freeze

# Each order to the watchdog fits into one message of the socket.
MOST_TARGETS: Final = 2_000
# Who forks faster than it is stopped is left.
_MOST_LOOKS: Final = 5


class Pauser:
    """Pauses jobs while a block runs. Nothing is paused that the watchdog does not know of."""

    def __init__(self, watchdog: Watchdog, within_s: float) -> None:
        """A job has to stop within `within_s` of the request."""
        self._watchdog = watchdog
        self._within_s = within_s

    @contextmanager
    def paused(self, jobs: Sequence[JobProcesses]) -> Iterator[Callable[[], bool]]:
        """Pause the jobs within it; gives what says whether all of them are stopped at that moment:
        where one is not, or was continued by somebody, nothing was measured.

        Raises WatchdogLostError. However the block ends, all is continued.
        """
        held: list[Target] = []
        try:
            complete = self._hold(jobs, held)
            yield lambda: complete and all(map(stands_still, held))
        finally:
            resume(held)
            self._watchdog.clear()

    def _hold(self, jobs: Sequence[JobProcesses], held: list[Target]) -> bool:
        """Pause until no new process appears: while some are being stopped, others fork."""
        for _ in range(_MOST_LOOKS):
            fresh = [target for job in jobs for target in job.targets() if target not in held]
            if not fresh:
                return self._await_standstill(held)
            if len(held) + len(fresh) > MOST_TARGETS:
                return False
            self._watchdog.announce([*held, *fresh])
            for target in fresh:
                held.append(target)
                if not _pause(target):
                    held.pop()
                    return False
        return False

    def _await_standstill(self, held: Sequence[Target]) -> bool:
        """A signal is on its way for some microseconds; what waits for a disk stops later."""
        until_s = time.monotonic() + self._within_s
        while not all(map(stands_still, held)):
            if time.monotonic() > until_s:
                return False
        return True


def _pause(target: Target) -> bool:
    """False for one that the agent may not touch, such as a program that became another user."""
    kind, name, started = target
    try:
        if kind == CGROUP:
            write_freeze(str(name), "1")
        else:
            signal_process(int(name), started, signal.SIGSTOP)
    except PermissionError:
        return False
    except (ProcessLookupError, FileNotFoundError):  # it has ended
        return True
    return True

"""Tries in a child process what may kill the one that does it."""

import faulthandler
import gc
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Final

Tell = Callable[[object], None]

_PASSED: Final = "passed"
# Where memory runs out, the kernel ends the child and not its parent.
_KILL_FIRST: Final = "1000"


@dataclass(frozen=True, slots=True)
class ChildDeath:
    """How a child ended; `stack` is empty where a signal leaves no time to write one."""

    how: str
    stack: str
    last_told: object


def death_of(work: Callable[[Tell], object], times: int = 1) -> ChildDeath | None:
    """Do some work in a copy of this process, and again when the copy dies, so many times; None
    when one ends.

    What the work changes is lost with the copy. It says through what it is handed how far it is.
    """
    death = _once(work)
    return death_of(work, times - 1) if death and times > 1 else death


def _once(work: Callable[[Tell], object]) -> ChildDeath | None:
    context = get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    with receiving, TemporaryFile() as stack:
        child = context.Process(target=_do, args=(work, sending, stack))
        child.start()
        sending.close()
        last_told = _last(receiving)
        child.join()
        if last_told == _PASSED:
            return None
        stack.seek(0)
        return ChildDeath(
            _how(child.exitcode or 0), stack.read().decode(errors="replace"), last_told
        )


def _do(work: Callable[[Tell], object], sending: Connection, stack: BinaryIO) -> None:
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_KILL_FIRST)
    # What the parent left to collect may need threads that are in the parent alone, as gRPC's do.
    gc.freeze()
    faulthandler.enable(stack)
    work(sending.send)
    sending.send(_PASSED)


def _last(receiving: Connection) -> object:
    last: object = None
    with suppress(EOFError):
        while True:
            last = receiving.recv()
    return last


def _how(exit_code: int) -> str:
    """Negative codes are signals, of which those for real time have no name."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    named = {each.value: each.name for each in signal.Signals}
    return named.get(-exit_code, f"signal {-exit_code}")

"""What the kernel's perf events count of a job's threads."""

import ctypes
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from errno import EACCES, EPERM, ESRCH
from typing import Final, NamedTuple

from coplace_agent.adapters.processes import threads_of


class NoCounterError(ValueError):
    """Nothing counts this, or not for us; the message says why."""


class CounterKind(NamedTuple):
    """What a counter of the kernel counts: two fields of `perf_event_attr`."""

    type: int
    config: int


INSTRUCTIONS: Final = CounterKind(0, 1)
CYCLES: Final = CounterKind(0, 0)
# Of the last level: lines that come from memory.
CACHE_MISSES: Final = CounterKind(0, 3)
# Time on a processor in ns, of the kernel's own counters.
TASK_CLOCK: Final = CounterKind(1, 1)

_PERF_EVENT_OPEN: Final = {"x86_64": 298, "aarch64": 241, "ppc64le": 319}
# perf_event_attr: type, size, config, sample_period, sample_type, read_format, flags; the rest 0.
_ATTRIBUTES: Final = struct.Struct("=IIQQQQQ64x")
_ATTRIBUTES_BYTES: Final = 112
# value, time_enabled, time_running: with the last two a counter that had to share is scaled up.
_READ_FORMAT: Final = 1 | 2
_COUNTED: Final = struct.Struct("=QQQ")
_EXCLUDE_KERNEL_AND_HYPERVISOR: Final = 1 << 5 | 1 << 6
_CLOSE_ON_EXEC: Final = 8
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LONG: Final = ctypes.c_long


def scaled(data: bytes) -> float:
    """Scale a counter's value as `read` gives it to all the time that it was asked to count: there
    are more events than counters, which take turns (perf_event_open(2), PERF_FORMAT_*)."""
    value, enabled_ns, running_ns = _COUNTED.unpack(data)
    return float(value * enabled_ns / running_ns) if running_ns else 0.0


class ThreadCounters:
    """Counters of some kinds, each over all threads of a job.

    Threads that end leave what they counted. Raises NoCounterError where the machine counts one of
    them not, as most virtual ones, or the agent may not read it.
    """

    def __init__(self, *kinds: CounterKind) -> None:
        self._kinds = kinds
        self._open: dict[int, tuple[int, ...]] = {}
        self._ended = [0.0] * len(kinds)
        self._require()

    def counts(self) -> list[float]:
        """Return the sums over all threads by kind, since each was first followed."""
        counted = [[scaled(os.read(file, 24)) for file in files] for files in self._open.values()]
        return [sum(each) for each in zip(self._ended, *counted, strict=True)]

    def follow(self, pids: Iterable[int]) -> None:
        """Open counters of new threads, and close those of threads that have ended."""
        threads = set(_threads(pids))
        for thread in self._open.keys() - threads:
            self._drop(thread)
        for thread in threads - self._open.keys():
            self._add(thread)

    def close(self) -> None:
        """Close all counters."""
        for thread in list(self._open):
            self._drop(thread)

    def _require(self) -> None:
        for kind in self._kinds:
            try:
                os.close(_opened(kind, 0))
            except OSError as error:
                reason = os.strerror(error.errno or 0)
                raise NoCounterError(f"no counter of the processor: {reason}") from None

    def _add(self, thread: int) -> None:
        files: list[int] = []
        try:
            files += (_opened(kind, thread) for kind in self._kinds)
        except OSError as error:
            for file in files:
                os.close(file)
            if error.errno == ESRCH:  # it has ended
                return
            if error.errno in (EACCES, EPERM):
                raise NoCounterError(f"thread {thread}: {error.strerror}") from None
            raise
        self._open[thread] = tuple(files)

    def _drop(self, thread: int) -> None:
        for index, file in enumerate(self._open.pop(thread)):
            self._ended[index] += scaled(os.read(file, 24))
            os.close(file)


def _threads(pids: Iterable[int]) -> Iterator[int]:
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            yield from threads_of(pid)


def _opened(kind: CounterKind, thread: int) -> int:
    """A counter of one thread (0: this one) on whatever processor. Raises OSError."""
    what = kind.type, _ATTRIBUTES_BYTES, kind.config
    attributes = _ATTRIBUTES.pack(*what, 0, 0, _READ_FORMAT, _EXCLUDE_KERNEL_AND_HYPERVISOR)
    anywhere, no_group = -1, -1
    numbers = (thread, anywhere, no_group, _CLOSE_ON_EXEC)
    call = _PERF_EVENT_OPEN[os.uname().machine]
    file = _LIBC.syscall(_LONG(call), attributes, *map(_LONG, numbers))
    if file < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(file)

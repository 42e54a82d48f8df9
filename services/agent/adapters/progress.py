"""Where progress is read: heartbeats that an application counts, or the processor's counters."""

import ctypes
import os
import stat
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from errno import EACCES, EPERM, ESRCH
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from services.agent.adapters.processes import threads_of
from services.agent.model import ProgressReading

# The file of services/agent/client: eight bytes that name it, then counters of 64 bits, least byte
# first, one a cache line.
HEARTBEAT_MAGIC: Final = b"COPLACE1"
HEARTBEAT_BYTES: Final = 4096
_LINE_WORDS: Final = 8
_COUNTS: Final = struct.Struct(f"<{HEARTBEAT_BYTES // 8}Q")


class NoProgressError(ValueError):
    """No progress can be read of a job; the message says why."""


class ProgressCounter(Protocol):
    """One job's counters of progress."""

    def read(self) -> ProgressReading:
        """As they are now."""
        ...

    def follow(self, pids: Iterable[int]) -> None:
        """These are the job's processes from now on."""
        ...

    def close(self) -> None:
        """Let go of them."""
        ...


class Heartbeats:
    """The counters of a file that the job's processes map; it is read, not mapped, since a mapping
    of what its owner cuts short would kill its reader."""

    def __init__(self, path: Path) -> None:
        """Raises NoProgressError for what is not such a file."""
        try:
            # A pipe would hold its reader, a link lead to what its owner may not read.
            self._file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise NoProgressError(f"{path}: {error.strerror}") from None
        is_file = stat.S_ISREG(os.fstat(self._file).st_mode)
        if not is_file or os.pread(self._file, len(HEARTBEAT_MAGIC), 0) != HEARTBEAT_MAGIC:
            self.close()
            raise NoProgressError(f"{path} is no file of heartbeats")

    def read(self) -> ProgressReading:
        """All counters together, and the time in seconds. Of a file that was cut short they are
        0, so that the job seems to have gone back: which shows nothing."""
        now_s = time.monotonic()
        data = os.pread(self._file, HEARTBEAT_BYTES, 0).ljust(HEARTBEAT_BYTES, b"\0")
        return ProgressReading(sum(_COUNTS.unpack(data)[_LINE_WORDS::_LINE_WORDS]), now_s)

    def follow(self, pids: Iterable[int]) -> None:
        """The file is the same whoever counts in it."""

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class CounterKind(NamedTuple):
    """What a counter of the kernel counts: two fields of `perf_event_attr`."""

    type: int
    config: int


INSTRUCTIONS: Final = CounterKind(0, 1)
CYCLES: Final = CounterKind(0, 0)

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
    """A counter's value as `read` gives it, as if it had counted all the time that it was asked to:
    there are more events than counters, which take turns (perf_event_open(2), PERF_FORMAT_*)."""
    value, enabled_ns, running_ns = _COUNTED.unpack(data)
    return float(value * enabled_ns / running_ns) if running_ns else 0.0


class Counters:
    """Instructions by cycles of all threads of a job, from the kernel's perf events.

    Threads that end leave what they counted. Raises NoProgressError where the machine counts
    nothing of that, as most virtual ones, or the agent may not read it.
    """

    def __init__(self, progress: CounterKind = INSTRUCTIONS, base: CounterKind = CYCLES) -> None:
        self._kinds = progress, base
        self._open: dict[int, tuple[int, int]] = {}
        self._ended = [0.0, 0.0]
        self._require()

    def read(self) -> ProgressReading:
        """The sums over all threads, since each was first followed."""
        counted = [[scaled(os.read(file, 24)) for file in files] for files in self._open.values()]
        return ProgressReading(*map(sum, zip(self._ended, *counted, strict=True)))

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
                raise NoProgressError(f"no counter of the processor: {reason}") from None

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
                raise NoProgressError(f"thread {thread}: {error.strerror}") from None
            raise
        self._open[thread] = files[0], files[1]

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

"""Where progress is read: heartbeats that an application counts, or the processor's counters."""

import os
import stat
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from coplace_agent.adapters.counters import (
    CYCLES,
    INSTRUCTIONS,
    CounterKind,
    NoCounterError,
    ThreadCounters,
)
from coplace_agent.model import ProgressReading

# The file of coplace_client/heartbeats: eight bytes that name it, then counters of 64 bits, least
# byte first, one a cache line.
HEARTBEAT_MAGIC: Final = b"COPLACE1"
HEARTBEAT_BYTES: Final = 4096
_LINE_WORDS: Final = 8
_COUNTS: Final = struct.Struct(f"<{HEARTBEAT_BYTES // 8}Q")


class ProgressCounter(Protocol):
    """One job's counters of progress."""

    def read(self) -> ProgressReading:
        """Read the counters as they are now."""
        ...

    def follow(self, pids: Iterable[int]) -> None:
        """Follow the job's processes, which are these from now on."""
        ...

    def close(self) -> None:
        """Close the counters."""
        ...


class Heartbeats:
    """The counters of a file that the job's processes map; it is read, not mapped, since a mapping
    of what its owner cuts short would kill its reader."""

    def __init__(self, path: Path) -> None:
        """Raises NoCounterError for what is not such a file."""
        try:
            # A pipe would hold its reader, a link lead to what its owner may not read.
            self._file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise NoCounterError(f"{path}: {error.strerror}") from None
        is_file = stat.S_ISREG(os.fstat(self._file).st_mode)
        if not is_file or os.pread(self._file, len(HEARTBEAT_MAGIC), 0) != HEARTBEAT_MAGIC:
            self.close()
            raise NoCounterError(f"{path} is not a file of heartbeats")

    def read(self) -> ProgressReading:
        """Read all counters together, and the time in seconds. Of a file that was cut short they
        are 0, so that the job seems to go back: which shows nothing."""
        now_s = time.monotonic()
        data = os.pread(self._file, HEARTBEAT_BYTES, 0).ljust(HEARTBEAT_BYTES, b"\0")
        return ProgressReading(sum(_COUNTS.unpack(data)[_LINE_WORDS::_LINE_WORDS]), now_s)

    def follow(self, pids: Iterable[int]) -> None:
        """Ignore the processes: the file is the same whoever counts in it."""

    def close(self) -> None:
        """Close the file of the counters."""
        os.close(self._file)


class Counters(ThreadCounters):
    """Instructions by cycles of all threads of a job. Raises NoCounterError as any counter."""

    def __init__(self, progress: CounterKind = INSTRUCTIONS, base: CounterKind = CYCLES) -> None:
        super().__init__(progress, base)

    def read(self) -> ProgressReading:
        """Read the sums over all threads, since each was first followed."""
        return ProgressReading(*self.counts())

"""Heartbeats of an application for the Coplace node agent: one counter for each process or thread.

    beats = Heartbeat()
    for ...:
        work()
        beats.beat()

Call `beat` as often as work of the same size is done, many times in a millisecond: a shutter of
3.2 ms sees no more than the beats in it. Copy this file beside the application: it needs the
standard library alone.
"""

import mmap
import os
import sys

_BYTES = 4096
_SLOTS = 63
_LINE_WORDS = 8


class Heartbeat:
    """A counter in the file that COPLACE_HEARTBEATS names; without one beats are not counted.

    Whoever counts at the same time has a slot of their own, such as their rank. Raises OSError
    where the file cannot be made, ValueError for an invalid slot.
    """

    def __init__(self, slot: int = 0, path: str | None = None) -> None:
        if not 0 <= slot < _SLOTS:
            raise ValueError(f"slot must be from 0 to {_SLOTS - 1}, got {slot}")
        if sys.byteorder != "little":
            raise OSError("counters are written with the least byte first")
        path = os.environ.get("COPLACE_HEARTBEATS", "") if path is None else path
        self._index = _LINE_WORDS * (slot + 1)
        self._counts = _mapped(path) if path else memoryview(bytearray(_BYTES)).cast("Q")

    def beat(self, count: int = 1) -> None:
        """Count so much work more as done."""
        self._counts[self._index] += count


def _mapped(path: str) -> memoryview:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(file, _BYTES)
        mapped = mmap.mmap(file, _BYTES)
    finally:
        os.close(file)
    mapped[:8] = b"COPLACE1"
    return memoryview(mapped).cast("Q")

"""A service whose wall clock is wrong: `python -m tests.chaos.kills.wrong_clock FILE MODULE`.

The clock is ahead by as many seconds as the file says, which may change while the service runs.
`CLOCK_BOOTTIME` is right, as it is when somebody sets the clock of a machine.
"""

import runpy
import struct
import sys
import time
from collections.abc import Callable, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

_SECONDS: Final = struct.Struct("<d")


def set_ahead(file: Path, seconds: float) -> None:
    """Put the clocks that go by this file so far ahead; negative: behind."""
    packed = _SECONDS.pack(seconds)
    if not file.exists():
        file.write_bytes(packed)
        return
    with file.open("r+b") as kept:
        kept.write(packed)


def argv(command: Sequence[str], file: Path) -> list[str]:
    """The command that runs the module of another (`python -m MODULE`) by such a clock."""
    python, option, module = command
    return [python, option, __spec__.name, str(file), module]


def _shifted(right_ns: Callable[[], int], file: mmap) -> Callable[[], int]:
    def now_ns() -> int:
        ahead_s: float = _SECONDS.unpack_from(file)[0]
        return right_ns() + round(ahead_s * 1e9)

    return now_ns


def main(file: str, module: str) -> None:
    """Set this process's clock wrong, then be the service."""
    with Path(file).open("rb") as opened:
        now_ns = _shifted(time.time_ns, mmap(opened.fileno(), _SECONDS.size, access=ACCESS_READ))
    time.time_ns = now_ns
    time.time = lambda: now_ns() / 1e9
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What is counted, in a process of its own below valgrind: `python -m
lab.benchmarks.quick.counted NAME` prints its other figures as JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from lab.benchmarks.placement_rounds import Rounds
from lab.demo import embedded
from lab.demo.embedded import EmbeddedSystem
from lab.demo.options import DemoOptions

JOBS: Final = 30
ROUNDS: Final = 6
_QUEUED: Final = 3_000
_CLUSTERS: Final = 8
# Rounds that come before those that are counted: in the first ones much is worked out once.
_BEFORE: Final = 2
_READ: Final = 10_000


@contextmanager
def counting() -> Iterator[None]:
    """Count the instructions of what is within."""
    _tell("on")
    yield
    _tell("off")


def _tell(state: str) -> None:
    words = "callgrind_control", f"--instr={state}", str(os.getpid())
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def whole_lives() -> dict[str, float]:
    """Play the built-in workload from submission to charge, in one process over the log in memory;
    return what a job writes there."""
    with counting():
        system = embedded.run(DemoOptions(jobs=JOBS), lambda _ended: None)
    return written(system)


def written(system: EmbeddedSystem) -> dict[str, float]:
    """Count what a job has written to the log. Each partition that a transaction wrote to has a
    mark of its end."""
    records = size = offsets = 0
    for partition in system.log.partitions():
        offsets += system.log.end_offset(partition) - system.log.begin_offset(partition)
        at = 0
        while found := system.log.read(partition, at, _READ):
            at = found[-1].offset + 1
            records += len(found)
            size += sum(len(each.key or b"") + len(each.value or b"") for each in found)
    counts = {"records": records, "bytes": size, "ends of transactions": offsets - records}
    return {f"{name} of a job": count / JOBS for name, count in counts.items()}


def rounds(partitions: int) -> dict[str, float]:
    """Play rounds of placement behind jobs that wait."""
    played = Rounds(_CLUSTERS, is_capped=False, partitions=partitions, queued=_QUEUED)
    for number in range(1, _BEFORE + 1):
        played.play(number)
    with counting():
        for number in range(_BEFORE + 1, _BEFORE + ROUNDS + 1):
            played.play(number)
    return {}


# By name: what is counted, and of how many.
COUNTED: Final[dict[str, tuple[Callable[[], dict[str, float]], int]]] = {
    "a job": (whole_lives, JOBS),
    "a round": (lambda: rounds(0), ROUNDS),
    "a round with 20 partitions": (lambda: rounds(20), ROUNDS),
}


if __name__ == "__main__":
    count, _ = COUNTED[sys.argv[1]]
    print(json.dumps(count()))

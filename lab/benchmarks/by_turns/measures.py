"""What is timed, in the checkout that this process was started in: prints CPU seconds as JSON.

It runs as a script from another checkout too, so it imports only what older commits have.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab.benchmarks.placement_rounds import Rounds
from lab.papers.placement.logs import IDLE_W, LOGS, PROC_W
from lab.papers.published_data import DATA
from lab.simulation.log import read_log
from lab.simulation.one_pool import PoolMachine, play_log
from lab.simulation.policy import SimulatedPolicy

_ROUNDS = 16
_CLUSTERS = 8


def cpu_s(work: Callable[[], object]) -> float:
    """Measure the CPU time of one call, s."""
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def easy(log: str) -> float:
    """Measure EASY on a real log, all but reading it."""
    logged = read_log(DATA / "swf" / LOGS[log], proc_w=PROC_W)
    machine = PoolMachine(logged.procs, IDLE_W)
    return cpu_s(lambda: play_log(logged, machine, SimulatedPolicy.EASY))


def rounds(*, is_capped: bool, in_parts: bool, planned: int) -> float:
    """Measure rounds of placement with 10,000 queued jobs, what comes in between not counted."""
    played = Rounds(_CLUSTERS, is_capped=is_capped, in_parts=in_parts, planned=planned)
    for number in range(1, _ROUNDS + 1):
        played.play(number)
    return sum(played.cpu_s)


MEASURES: dict[str, Callable[[], float]] = {
    **{f"EASY, {log}": lambda log=log: easy(log) for log in LOGS},  # type: ignore[misc]
    "rounds": lambda: rounds(is_capped=False, in_parts=False, planned=0),
    "rounds, caps and parts": lambda: rounds(is_capped=True, in_parts=True, planned=0),
    "rounds, plans under caps": lambda: rounds(is_capped=True, in_parts=False, planned=3),
    "rounds, plans and parts": lambda: rounds(is_capped=False, in_parts=True, planned=3),
}


if __name__ == "__main__":
    assert Path.cwd() in map(Path, sys.path)
    print(json.dumps({name: MEASURES[name]() for name in sys.argv[1:] or MEASURES}))

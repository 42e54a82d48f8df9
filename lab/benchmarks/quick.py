"""`python -m lab.benchmarks.quick`: what a job and a round cost, beside figures of before.

CPU time counts in units of a loop that runs in between, all the time: what else is at work on the
machine makes both longer. What is written to the log is counted, and is the same on any machine.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from lab.benchmarks.placement_rounds import Rounds
from lab.demo import embedded
from lab.demo.embedded import EmbeddedSystem
from lab.demo.options import DemoOptions
from shared.process.life import GC_THRESHOLDS

FIGURES: Final = Path(__file__).with_suffix(".json")
# A figure that is so much worse than before fails.
MOST_WORSE: Final = 0.15
# A figure of CPU time is the least of so many plays, where the first one was worse.
_PLAYS: Final = 3
_JOBS: Final = 200
_CLUSTERS: Final = 8
_ROUNDS: Final = 24
_READ: Final = 10_000
_LOOP_SHARE: Final = 0.2

Figures = Mapping[str, float]


class Loop:
    """A loop of what Python does most, which runs in between what is measured."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.runs = 0

    def run(self) -> None:
        """Run it once, some milliseconds. It leaves garbage to what is measured, which has more."""
        is_collected = gc.isenabled()
        gc.disable()
        began_s = time.thread_time()
        rows = [{"id": str(n), "nodes": [n * k for k in range(6)]} for n in range(400)]
        found = json.loads(json.dumps(rows))
        by_id = {each["id"]: tuple(each["nodes"]) for each in found}
        sorted(by_id.items(), key=lambda pair: (sum(pair[1]) % 97, pair[0]))
        self.cpu_s += time.thread_time() - began_s
        self.runs += 1
        if is_collected:
            gc.enable()

    def keep_up(self, cpu_s: float) -> None:
        """Run it as long as it has had less than its share of this time."""
        while self.cpu_s < _LOOP_SHARE * cpu_s:
            self.run()

    def of(self, cpu_s: float) -> float:
        """Return a CPU time in runs of the loop."""
        return cpu_s / (self.cpu_s / self.runs)


def whole_lives() -> dict[str, float]:
    """Measure the built-in workload from submission to charge, in one process over the log in
    memory: what a job costs, and what it writes."""
    loop = Loop()
    began_s = time.thread_time()
    system = embedded.run(
        DemoOptions(jobs=_JOBS), lambda _ended: loop.keep_up(time.thread_time() - began_s)
    )
    cpu_s = time.thread_time() - began_s - loop.cpu_s
    return {"CPU of a job": loop.of(cpu_s) / _JOBS, **written(system)}


def written(system: EmbeddedSystem) -> dict[str, float]:
    """Count what a job has written to the log; each partition that a transaction wrote to has a
    mark of its end."""
    records = size = offsets = 0
    for partition in system.log.partitions():
        end = system.log.end_offset(partition)
        offsets += end - system.log.begin_offset(partition)
        at = 0
        while found := system.log.read(partition, at, _READ):
            at = found[-1].offset + 1
            records += len(found)
            size += sum(len(each.key or b"") + len(each.value or b"") for each in found)
    marks = offsets - records
    counts = {"records": records, "bytes": size, "ends of transactions": marks}
    return {f"{name} of a job": count / _JOBS for name, count in counts.items()}


def rounds(partitions: int) -> float:
    """Measure a round of placement behind 10,000 jobs."""
    loop, played = Loop(), Rounds(_CLUSTERS, is_capped=False, partitions=partitions)
    gc.collect()
    for number in range(1, _ROUNDS + 1):
        played.play(number)
        loop.keep_up(sum(played.cpu_s))
    return loop.of(sum(played.cpu_s)) / _ROUNDS


MEASURES: Final[tuple[Callable[[], dict[str, float]], ...]] = (
    whole_lives,
    lambda: {"CPU of a round": rounds(0)},
    lambda: {"CPU of a round with 20 partitions": rounds(20)},
)


def worse(found: Figures, before: Figures) -> list[str]:
    """Return the figures that are worse than before by more than they may be, and those that one
    of both lacks."""
    lacking = sorted(found.keys() ^ before.keys())
    there = (name for name in found if name in before)
    return lacking + [name for name in there if found[name] > before[name] * (1 + MOST_WORSE)]


def measure(before: Figures) -> Figures:
    """Measure all figures; anew, for the least of some plays, those that are worse than before."""
    found: dict[str, float] = {}
    for measured in MEASURES:
        own = measured()
        for _ in range(_PLAYS - 1):
            known = {name: before[name] for name in own if name in before}
            if not worse(own, known):
                break
            again = measured()
            own = {name: min(value, again[name]) for name, value in own.items()}
        found |= own
    return found


def committed() -> Figures:
    """Read the figures of before."""
    found: dict[str, float] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="these are the figures from now on")
    asked = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)  # as services do
    before = {} if asked.record else committed()
    found = measure(before)
    table = Table("", "before", "now", "of before", title="CPU in runs of a loop")
    for name, value in found.items():
        share = f"{100 * value / before[name]:.1f} %" if name in before else ""
        table.add_row(name, f"{before.get(name, 0):,.2f}", f"{value:,.2f}", share)
    Console().print(table)
    if asked.record:
        text = json.dumps({name: round(value, 3) for name, value in found.items()}, indent=2)
        FIGURES.write_text(f"{text}\n", encoding="utf-8")
    elif too_much := worse(found, before):
        sys.exit(f"more than {MOST_WORSE:.0%} worse than before: {', '.join(too_much)}")


if __name__ == "__main__":
    main()

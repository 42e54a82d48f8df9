"""How large a region one placement serves: `python -m lab.benchmarks.region_size [jobs] [nodes]`.

So many jobs wait for eight clusters, each for all of them; they have so many nodes in all. Rounds
are those of `placement_rounds`. Then the state that placement left is read by another one, as after
a kill; what Kafka takes to deliver it is not counted.
"""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import psutil
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import track
from rich.table import Table

from lab.benchmarks.placement_rounds import PER_ROUND, Rounds
from shared.catalogue.policy_settings import PolicySettings
from shared.placement.processor.placement import Placement
from shared.process.memory import collect_rarely

_CLUSTERS: Final = 8
_ROUNDS: Final = 60
_MIB: Final = 2**20


class Kept:
    """The state as a changelog has it: what `changes` returned so far."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}

    def take(self, changes: Mapping[str, bytes | None]) -> None:
        """Apply changes."""
        for key, value in changes.items():
            if value is None:
                self.records.pop(key, None)
            else:
                self.records[key] = value

    @property
    def size_bytes(self) -> int:
        """Return the size of keys and values."""
        return sum(len(key) + len(value) for key, value in self.records.items())


def cpu_s(work: Callable[[], object]) -> float:
    """Do some work, and return its CPU time, s."""
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def main(jobs: int = 100_000, nodes: int = 20_000) -> None:
    """Print decisions a second, memory, and what a restart takes."""
    collect_rarely()
    kept = Kept()
    before_bytes = psutil.Process().memory_info().rss
    rounds = Rounds(
        _CLUSTERS, is_capped=False, queued=jobs, nodes=nodes // _CLUSTERS, kept=kept.take
    )
    resident_bytes = psutil.Process().memory_info().rss - before_bytes
    waiting = rounds.queued
    for number in track(range(1, _ROUNDS + 1), "rounds"):
        rounds.play(number)
    restored_s = cpu_s(lambda: Placement(dict(kept.records), PolicySettings(), 7.0))
    p50_s, p99_s = np.percentile(rounds.cpu_s, [50, 99])
    table = Table("", f"{waiting:,} jobs wait, {nodes:,} nodes", box=MARKDOWN)
    table.add_row(
        "a round of 50 submissions, CPU p50, p99", f"{1e3 * p50_s:.0f}, {1e3 * p99_s:.0f} ms"
    )
    table.add_row("jobs decided a CPU second", f"{_ROUNDS * PER_ROUND / sum(rounds.cpu_s):,.0f}")
    table.add_row("resident, of the region", f"{resident_bytes / _MIB:,.0f} MiB")
    table.add_row(
        "records of the state", f"{len(kept.records):,}, {kept.size_bytes / _MIB:,.0f} MiB"
    )
    table.add_row("to read them, CPU", f"{restored_s:.1f} s")
    Console().print(table)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

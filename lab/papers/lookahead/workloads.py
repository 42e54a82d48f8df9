"""The workloads: models on p1 and p2 as they are, logs on as many nodes as their machines had."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from lab.papers.placement.logs import LOGS
from lab.simulation.jobs import SubmittedJobs
from lab.simulation.log import read_log
from lab.simulation.system import SizeUnit, System, built_in_system
from lab.workloads.cirne import cirne_jobs
from lab.workloads.clusters import NODES
from lab.workloads.rigid import RigidJobs, lublin_jobs
from lab.workloads.streams import Stream, stream
from shared.scheduling.workload import Workload

CLUSTERS: Final = ("p1", "p2")


@dataclass(frozen=True, slots=True)
class Source:
    """Jobs of the Lublin-Feitelson model at an offered load, a window of a log, or Cirne's.

    Each cluster has so many `nodes`.
    """

    offered_load: float = 0.0
    log: str = ""
    nodes: int = NODES

    @property
    def system(self) -> System:
        """Return its clusters."""
        built_in = built_in_system([*CLUSTERS])
        return System(
            tuple(each.model_copy(update={"nodes": self.nodes}) for each in built_in.clusters)
        )

    def jobs(self, data: Path, seed: int, count: int) -> SubmittedJobs:
        """Draw so many jobs; of a log the seed draws the first one. Raises OSError or UnusableError
        for a log that cannot be read."""
        if self.log:
            drawn = _window(_log(data / "swf" / LOGS[self.log], self.nodes), seed, count)
        elif self.offered_load:
            total = len(CLUSTERS) * self.nodes
            drawn = lublin_jobs(seed, count, self.nodes, total, self.offered_load)
        else:
            drawn = cirne_jobs(seed, count)
        return SubmittedJobs(drawn, np.arange(1, len(drawn) + 1), SizeUnit.NODE)


SOURCES: Final[Mapping[str, Source]] = {
    "Cirne": Source(),
    "Lublin 0.7": Source(0.7),
    "Lublin 0.9": Source(0.9),
    "Lublin 1.1": Source(1.1),
    "KTH-SP2, 2 x 64": Source(log="KTH-SP2", nodes=64),
    "CTC-SP2, 2 x 192": Source(log="CTC-SP2", nodes=192),
    "HPC2N, 2 x 128": Source(log="HPC2N", nodes=128),
}


@cache
def _log(path: Path, nodes: int) -> Workload:
    """What of a log fits on one cluster; users' requests end jobs in the simulation alone."""
    return read_log(path, nodes, kill_at_limit=False).workload


def _window(work: Workload, seed: int, count: int) -> RigidJobs:
    most = max(len(work) - count, 0)
    first = int(stream(seed, Stream.WINDOW).integers(0, most + 1))
    some = slice(first, first + count)
    jobs = RigidJobs(
        work.submit_s[some], work.units[some, 0], work.run_s[some, 0], work.limit_s[some, 0]
    )
    return replace(jobs, submit_s=jobs.submit_s - jobs.submit_s[0])

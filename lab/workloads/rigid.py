"""Rigid jobs as columns: what a workload model makes and the simulator plays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coplace_client.errors import UnusableError
from lab.workloads import lublin
from lab.workloads.streams import Stream, stream
from lab.workloads.walltimes import walltimes_s

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RigidJobs:
    """Jobs by submission, each array of the shape (jobs,).

    `run_s` is the time on the reference cluster at the nominal P-state, `requested_s` what the
    user asks for there. Raises UnusableError for columns that no jobs have.
    """

    submit_s: Floats
    nodes: Ints
    run_s: Floats
    requested_s: Floats

    def __post_init__(self) -> None:
        if (np.diff(self.submit_s) < 0).any():
            raise UnusableError("submit_s must ascend: sort the jobs by submission")
        for name in ("nodes", "run_s", "requested_s"):
            if not (getattr(self, name) > 0).all():
                raise UnusableError(f"{name} must be above 0 for every job")

    def __len__(self) -> int:
        return len(self.submit_s)


def lublin_jobs(
    seed: int, jobs: int, machine_nodes: int, total_nodes: int, offered_load: float = 0.9
) -> RigidJobs:
    """Draw jobs of the Lublin-Feitelson model for clusters of `machine_nodes`, `total_nodes` in
    all.

    One factor scales the arrivals to the offered load: node-seconds of the jobs over those of all
    nodes until the last arrival. Raises UnusableError for a machine too small for the model.
    """
    nodes = lublin.sizes(stream(seed, Stream.SIZE), np.full(jobs, machine_nodes))
    run_s = lublin.runtimes_s(stream(seed, Stream.RUNTIME), nodes)
    arrival_s = lublin.arrivals_s(stream(seed, Stream.ARRIVAL), jobs)
    span_s = float((nodes * run_s).sum()) / (offered_load * total_nodes)
    return RigidJobs(arrival_s * (span_s / arrival_s[-1]), nodes, run_s, walltimes_s(seed, run_s))

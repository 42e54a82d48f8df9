"""What is known of a job when it is submitted, and what is known once it has run."""

import math
from typing import Final, NamedTuple

from coplace_client.bounds import NODE_POWER_W
from shared.numerics.elementary import log, log2


class Submission(NamedTuple):
    """What a user asked for; a number that nobody gave is NaN, a name that nobody gave empty.

    `cores`, `gpus` and `accelerators` are of the whole job, `memory_bytes` of one node.
    """

    job_id: str
    user: str
    nodes: float = math.nan
    walltime_s: float = math.nan
    cores: float = math.nan
    gpus: float = math.nan
    accelerators: float = math.nan
    memory_bytes: float = math.nan
    queue: str = ""
    cluster: str = ""


class MeasuredPower(NamedTuple):
    """Mean power of one node over the job's life, W, and how long it ran; NaN where unknown."""

    node_power_w: float
    runtime_s: float = math.nan

    @property
    def is_usable(self) -> bool:
        """Return whether the power is one that a node can draw: neither missing, nor 0, nor
        absurd."""
        return NODE_POWER_W.has(self.node_power_w)


# No node has more devices: what lies beyond is a mistake, and 32 bits hold it.
_MOST_OF_A_NODE: Final = 1e6
# The value in a feature row where it is unknown: below every value that is known.
UNKNOWN: Final = -9.0
SUBMISSION_FEATURES: Final = (
    "log2 nodes",
    "log walltime",
    "log2 cores a node",
    "GPUs a node",
    "accelerators a node",
    "log memory",
)


def submission_row(job: Submission) -> list[float]:
    """Return SUBMISSION_FEATURES of a job, the columns that Borghesi et al. (2018, section 4.1)
    name but the queue, which is a shape of the history."""
    return [
        _log2(job.nodes),
        _log(job.walltime_s),
        _log2(job.cores / job.nodes if job.nodes > 0 else math.nan),
        _known(job.gpus / job.nodes if job.nodes > 0 else math.nan),
        _known(job.accelerators / job.nodes if job.nodes > 0 else math.nan),
        _log(job.memory_bytes),
    ]


def _log(value: float) -> float:
    return log(value) if 0 < value < math.inf else UNKNOWN


def _log2(value: float) -> float:
    return log2(value) if 0 < value < math.inf else UNKNOWN


def _known(value: float) -> float:
    return min(value, _MOST_OF_A_NODE) if math.isfinite(value) else UNKNOWN

"""Independent random streams, one for each thing that a workload draws."""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Stream(IntEnum):
    """What a stream is for. The values are part of every seeded workload: add, never renumber."""

    REFERENCE_CLUSTER = 0
    SIZE = 1
    RUNTIME = 2
    ARRIVAL = 3
    APP = 4
    USER = 5
    SHAREABLE = 6
    OVERESTIMATE = 7
    ACCURACY = 8
    MISLABELLED = 9
    PARTS = 10
    WINDOW = 11
    START_TERMS = 12
    ARRAYS = 13
    GANGS = 14
    INTERACTIVE = 15
    PARTITIONS = 20
    RESERVED = 21
    LICENSED = 22


def stream(seed: int, purpose: Stream) -> np.random.Generator:
    """Return the generator of one purpose. Job i takes the i-th draw of each, whatever follows it.

    Raises ValueError for a negative seed.
    """
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, purpose))))


def shareable(seed: int, jobs: int, share: float = 0.3) -> NDArray[np.bool]:
    """Draw whether each job may share its nodes: its own draw against `share`, shape (jobs,)."""
    return np.asarray(stream(seed, Stream.SHAREABLE).random(jobs) < share)

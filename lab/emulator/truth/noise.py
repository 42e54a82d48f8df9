"""Noise that depends on what it is for, never on the order in which it is drawn."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np

from shared.numerics.elementary import exp

NODE_POWER_SIGMA: Final = 0.015  # manufacturing variability of nodes of one model
RUN_TIME_SIGMA: Final = 0.01
RUN_POWER_SIGMA: Final = 0.01
COUNTER_SIGMA: Final = 0.01  # CPI and TPI of one run against another
SHUTTER_SIGMA: Final = 0.01  # IPC over a shutter of some milliseconds
METER_SIGMA: Final = 0.005


@dataclass(frozen=True, slots=True)
class RunNoise:
    """What one run differs by from the mean run, as factors near 1."""

    time: float
    power: float
    cpi: float
    tpi: float


@dataclass(frozen=True, slots=True)
class Noise:
    """Counter-based generators, one for each subject. Raises ValueError for a negative seed."""

    seed: int

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"the seed must be at least 0, got {self.seed}")

    def generator(self, *subject: str) -> np.random.Generator:
        """Return the generator of one subject: a job, a node, a pair of them."""
        digest = blake2b("\x1f".join(subject).encode(), digest_size=8).digest()
        key = np.array([self.seed, int.from_bytes(digest)], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key))

    def node_power(self, node: str) -> float:
        """Return what a node draws against the mean node of its model."""
        return exp(NODE_POWER_SIGMA * self.generator("node", node).standard_normal())

    def run(self, *subject: str) -> RunNoise:
        """Return how one run of a job or of a kernel differs from the mean run."""
        time, power, cpi, tpi = self.generator("run", *subject).standard_normal(4)
        return RunNoise(
            time=exp(RUN_TIME_SIGMA * time),
            power=exp(RUN_POWER_SIGMA * power),
            cpi=exp(COUNTER_SIGMA * cpi),
            tpi=exp(COUNTER_SIGMA * tpi),
        )

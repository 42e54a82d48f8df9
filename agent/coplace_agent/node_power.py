"""A node's mean power, as samples of a fixed length."""

from typing import NamedTuple


class PowerSample(NamedTuple):
    """Mean power up to a moment of the wall clock."""

    time_us: int
    power_w: float


class PowerSampler:
    """Samples from readings of a counter of energy, given out in batches."""

    def __init__(self, sample_s: float, batch_s: float) -> None:
        self._sample_s = sample_s
        self._batch_s = batch_s
        self._began: tuple[float, float] | None = None
        self._batch_began_s = 0.0
        self._samples: list[PowerSample] = []

    def read(self, energy_j: float, now_s: float, now_us: int) -> list[PowerSample]:
        """Take a reading of the energy drawn by now; returns a batch that is full by that, else
        nothing."""
        if self._began is None:
            self._began = energy_j, now_s
            return []
        began_j, began_s = self._began
        if now_s - began_s < self._sample_s:
            return []
        self._began = energy_j, now_s
        if not self._samples:
            self._batch_began_s = began_s
        self._samples.append(PowerSample(now_us, (energy_j - began_j) / (now_s - began_s)))
        return self.rest() if now_s - self._batch_began_s >= self._batch_s else []

    def lost(self) -> None:
        """Note that the meter did not answer: no sample goes over that time."""
        self._began = None

    def rest(self) -> list[PowerSample]:
        """Return what is not given out yet."""
        found, self._samples = self._samples, []
        return found

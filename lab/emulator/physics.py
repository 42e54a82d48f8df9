"""Holds the truth of drawn applications to what no machine can do: python -m lab.emulator.physics
[applications]"""

import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from lab.emulator.truth.laws import Behaviour
from lab.emulator.truth.noise import Noise
from lab.emulator.truth.runs import EmulatedTruth
from lab.workloads.table1 import APPS, NODE_MODELS, PublishedNodeModel

# Of the eight applications on two node models, by the published coefficients: all but STREAM.
PUBLISHED_INSIDE: Final = (14, 16)
_ROUNDING: Final = 1e-12


@dataclass(slots=True)
class Physics:
    """How many pairs of an application and a node model there were, how many of them break a rule
    somewhere, and how many have their least energy at neither end of the range."""

    pairs: int = 0
    beyond_bound: int = 0
    faster_when_slower: int = 0
    more_power_when_slower: int = 0
    inside: int = 0

    @property
    def inside_share(self) -> float:
        """Return the share of the pairs with their least energy inside the range."""
        return self.inside / self.pairs

    def count(self, model: PublishedNodeModel, runs: list[Behaviour]) -> None:
        """Count one application on one node model; a run for each P-state."""
        top, energies_j = runs[-1], [run.time_s * run.power_w for run in runs]
        self.pairs += 1
        # Nothing takes longer than its clock makes it: T(f) <= T(f_nom) f_nom / f.
        self.beyond_bound += any(
            run.time_s > top.time_s * model.nominal_ghz / freq_ghz * (1 + _ROUNDING)
            for freq_ghz, run in zip(model.pstates_ghz, runs, strict=True)
        )
        steps = [*pairwise(runs)]
        self.faster_when_slower += any(
            low.time_s < high.time_s * (1 - _ROUNDING) for low, high in steps
        )
        self.more_power_when_slower += any(
            low.power_w > high.power_w * (1 + _ROUNDING) for low, high in steps
        )
        self.inside += min(energies_j) < min(energies_j[0], energies_j[-1]) * (1 - _ROUNDING)


def physics_of(applications: int, first_seed: int = 1) -> Physics:
    """Count over so many drawn applications: those of Table 1 under one seed after another, each
    at all P-states of all node models."""
    found = Physics()
    for number in range(applications):
        truth = EmulatedTruth(Noise(first_seed + number // len(APPS)))
        app_id = [*APPS][number % len(APPS)]
        for model in NODE_MODELS.values():
            runs = [truth.application(app_id, model, f) for f in model.pstates_ghz]
            found.count(model, runs)
    return found


def main(applications: int = 1000) -> None:
    """Print the counts beside what was published."""
    found = physics_of(applications)
    inside, pairs = PUBLISHED_INSIDE
    print(f"{found.pairs:,} pairs of {applications:,} drawn applications and a node model")
    print(f"longer than by the clock: {found.beyond_bound}")
    print(f"faster at a lower P-state: {found.faster_when_slower}")
    print(f"more power at a lower P-state: {found.more_power_when_slower}")
    print(f"least energy inside the range: {100 * found.inside_share:.1f} %", end="")
    print(f" (published: {inside} of {pairs}, {100 * inside / pairs:.1f} %)")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Machines whose pairs follow a rule that is known: what a target suffers is how sensitive it is
times how much its neighbour presses."""

import numpy as np

from shared.colocation.measured import BUBBLES, Floats, Profiles


def made(
    seed: int, machines: int = 2, apps: int = 10, noise: float = 0.0
) -> tuple[Profiles, Floats]:
    """Profiles and degradation (machines, targets, neighbours) of pairs of different ones."""
    rng = np.random.default_rng(seed)
    sensitivity, pressure = rng.uniform(0.05, 1.0, (2, machines, apps))
    curves = sensitivity[:, :, np.newaxis] * np.linspace(0.0, 1.0, BUBBLES)
    degradation = sensitivity[:, :, np.newaxis] * pressure[:, np.newaxis, :]
    degradation += noise * rng.standard_normal(degradation.shape)
    degradation[:, np.arange(apps), np.arange(apps)] = np.nan
    profiles = Profiles(
        tuple(f"m{n}" for n in range(machines)),
        tuple(f"a{n}" for n in range(apps)),
        curves,
        1e6 * (1 + pressure),
        rng.uniform(20.0, 200.0, (machines, apps)),
    )
    return profiles, degradation

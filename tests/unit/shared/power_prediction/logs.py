"""Logs of jobs with a power that can be known: users with applications, drift and noise."""

import numpy as np

from shared.power_prediction.submission import MeasuredPower, Submission

Log = list[tuple[Submission, MeasuredPower]]


def drifting_log(seed: int, jobs: int, *, users: int = 12, noise: float = 0.05) -> Log:
    """Jobs of users who submit campaigns of one shape, whose power walks slowly and sometimes
    jumps."""
    rng = np.random.default_rng(seed)
    power_w = rng.uniform(60, 220, (users, 3))
    found: Log = []
    while len(found) < jobs:
        user, shape = int(rng.integers(users)), int(rng.integers(3))
        power_w[user, shape] *= np.exp(rng.normal(0, 0.02) + (rng.random() < 0.02) * 0.4)
        power_w[user, shape] = np.clip(power_w[user, shape], 40, 300)
        for _ in range(int(rng.geometric(0.2))):
            drawn_w = power_w[user, shape] * np.exp(rng.normal(0, noise))
            job = Submission(str(len(found)), f"u{user}", 2.0**shape, 3600.0 * (1 + shape))
            found.append((job, MeasuredPower(float(drawn_w), 600.0 * (1 + shape))))
    return found[:jobs]

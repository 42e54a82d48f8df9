"""A log whose every power is known: users with several applications, campaigns and drift.

It differs from the real log in what it can: applications share shapes, power depends on the nodes,
some jobs fail early and draw little, users come and go, new versions of an application draw more or
less. The power without the noise of the single run is what the best predictor could say.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from shared.power_prediction.submission import MeasuredPower, Submission

_WALLTIMES_S: Final = (3_600.0, 14_400.0, 43_200.0, 86_400.0)
_FAILED_SHARE: Final = 0.04
_IDLE_W: Final = 95.0


class Generated(NamedTuple):
    """A job, what it drew, and what it would have drawn without noise and failure."""

    job: Submission
    outcome: MeasuredPower
    expected_w: float


@dataclass(slots=True)
class _Application:
    power_w: float
    per_doubling: float
    noise: float
    nodes: tuple[int, ...]
    walltime_s: float
    queue: str

    def drift(self, rng: np.random.Generator) -> None:
        """Inputs change slowly; now and then there is a new version."""
        self.power_w *= np.exp(rng.normal(0, 0.01))
        if rng.random() < 0.01:
            self.power_w *= rng.uniform(0.7, 1.4)
        self.power_w = float(np.clip(self.power_w, 110.0, 420.0))


def generated(seed: int, jobs: int, users: int = 150) -> list[Generated]:
    """Generate jobs in the order of their submission."""
    campaigns = _campaigns(np.random.default_rng(seed), jobs, users)
    return [each for each, _ in zip(campaigns, range(jobs), strict=False)]


def _campaigns(rng: np.random.Generator, jobs: int, users: int) -> Iterator[Generated]:
    """Several campaigns at a time, the next job of any of them."""
    applications = [[_application(rng) for _ in range(rng.integers(1, 5))] for _ in range(users)]
    active: list[tuple[int, _Application, int]] = []
    for number in range(jobs):
        while len(active) < 6:
            # Users come one after the other: at first only a fifth of them is there.
            there = max(1, round(users * (0.2 + 0.8 * number / jobs)))
            user = min(int(rng.zipf(1.4)) - 1, 10 * there) % there
            chosen = applications[user][int(rng.integers(len(applications[user])))]
            active.append((user, chosen, int(rng.geometric(0.08))))
        at = int(rng.integers(len(active)))
        user, application, left = active[at]
        active[at] = (user, application, left - 1)
        if left <= 1:
            del active[at]
        yield _job(rng, number, user, application)


def _application(rng: np.random.Generator) -> _Application:
    sizes = tuple(int(2**n) for n in rng.integers(0, 6, 2))
    return _Application(
        power_w=float(rng.uniform(130, 380)),
        per_doubling=float(rng.normal(-0.03, 0.03)),
        noise=float(rng.choice([0.01, 0.03, 0.1])),
        nodes=sizes,
        walltime_s=float(rng.choice(_WALLTIMES_S)),
        queue=str(rng.choice(["main", "long"])),
    )


def _job(rng: np.random.Generator, number: int, user: int, application: _Application) -> Generated:
    application.drift(rng)
    nodes = application.nodes[int(rng.integers(len(application.nodes)))]
    job = Submission(
        str(number),
        f"u{user}",
        float(nodes),
        application.walltime_s,
        nodes * 36.0,
        queue=application.queue,
        cluster="made",
    )
    expected_w = application.power_w * (1 + application.per_doubling * np.log2(nodes))
    drawn_w, runtime_s = expected_w * np.exp(rng.normal(0, application.noise)), 0.6
    if rng.random() < _FAILED_SHARE:
        drawn_w, runtime_s = _IDLE_W * rng.uniform(1.0, 1.3), 0.01
    outcome = MeasuredPower(float(drawn_w), runtime_s * application.walltime_s)
    return Generated(job, outcome, float(expected_w))

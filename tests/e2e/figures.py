"""What is decided, learned, emulated and published, for comparison between processors: python -m
tests.e2e.figures FOLDER

Writes a demo's files and figures.txt; prints the OpenBLAS kernels that the process has loaded.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from threadpoolctl import threadpool_info

from lab.demo.options import DemoOptions
from lab.demo.run import run_embedded
from lab.emulator.truth.noise import Noise
from lab.power_prediction.learner import PowerLearner, replay
from lab.workloads.cirne import cirne_jobs
from lab.workloads.rigid import lublin_jobs
from services.energy.adaptive import PairEvidence, adapt, gram_of
from services.energy.model import KernelRun, fit
from services.prediction.model import train_weights
from services.prediction.node_factors import NodeDraw, node_factors
from services.prediction.power_trees import train_forests
from shared.models.spread import Stretch
from shared.power_prediction.kinds import KindOfJob
from shared.power_prediction.online import EndedJob, OnlineLearner
from shared.power_prediction.submission import MeasuredPower, Submission

JOBS = 60
PSTATES_GHZ = (1.2, 1.6, 2.0, 2.7)
FIGURES_FILE = "figures.txt"

Figures = NDArray[np.float64] | list[object]


def learned(rng: np.random.Generator) -> Iterator[tuple[str, Figures]]:
    """The results of learning on measurements that are noise, which brings out every digit."""
    kernels = {f"k{number:02}": dict(_runs(rng)) for number in range(12)}
    found = fit(PSTATES_GHZ, kernels)
    yield "coefficients", np.stack([found.power, found.cpi])
    assert found.errors is not None
    yield "left out", np.stack([found.errors.power_left_out, found.errors.time_left_out])
    first, second = PSTATES_GHZ[:2]
    evidence = PairEvidence.none()
    for run in kernels.values():
        evidence = evidence.and_run(np.ones((2, 3)), run[first], run[second])
    gram = gram_of(run[first] for run in kernels.values())
    yield "adapted", adapt(np.ones((2, 3)), gram, evidence)
    features = np.stack([np.ones(99), *rng.random((3, 99))], axis=1)
    yield "weights", [train_weights(features, 1 + rng.random(99))]
    yield "power of similar jobs", list(_similar(rng))
    draws = [_draw(number, rng) for number in range(99)]
    yield "node factors", list(node_factors(draws).items())
    yield "power before the start", list(replay(PowerLearner(train_forests), _log(rng), 10))


def emulated() -> Iterator[tuple[str, Figures]]:
    """Jobs of the workload models, the noise of runs and quantiles of projections."""
    for name, jobs in (("lublin", lublin_jobs(1, 999, 512, 1024)), ("cirne", cirne_jobs(1, 999))):
        yield name, np.stack([jobs.submit_s, jobs.run_s, jobs.requested_s])
    yield "noise", [Noise(1).run(f"job-{number}") for number in range(999)]
    sd = np.linspace(0, 0.4, 999)
    stretch = Stretch.from_deviations(sd, sd[::-1], 0.95)
    yield "quantiles", np.stack([stretch.time, stretch.power, stretch.energy])


def _similar(rng: np.random.Generator) -> Iterator[object]:
    """Predictions of jobs of three users, each before the job is learned from."""
    learner = OnlineLearner(0.1)
    for number, (user, power_w) in enumerate(
        zip(rng.integers(3, size=99), rng.random(99), strict=True)
    ):
        kind = KindOfJob("model", 2.7, str(user), "", "1 units", 3600.0)
        predicted = learner.tables.predict(kind)
        learner.learn([EndedJob(str(number), kind, 300 + power_w, predicted)], number + 1)
        yield predicted


def _runs(rng: np.random.Generator) -> Iterator[tuple[float, KernelRun]]:
    for freq_ghz in PSTATES_GHZ:
        power_w, cpi, tpi = rng.uniform((250, 0.4, 0), (500, 4, 0.1)).tolist()
        yield freq_ghz, KernelRun(50 / freq_ghz, power_w, cpi, tpi)


def _log(rng: np.random.Generator) -> list[tuple[Submission, MeasuredPower]]:
    """Jobs of seven users, enough to grow trees once and to predict by them."""
    return [
        (
            Submission(str(number), f"u{number % 7}", 1.0 + number % 5, 3600.0 * (1 + number % 3)),
            MeasuredPower(100 + 20 * (number % 7) + 30 * float(rng.random()), 60 + number),
        )
        for number in range(360)
    ]


def _draw(number: int, rng: np.random.Generator) -> NodeDraw:
    return NodeDraw(
        number, f"{number}", "c", f"n{number % 7}", f"g{number % 5}", rng.uniform(300, 400)
    )


def main(folder: Path) -> None:
    """Write everything into one folder."""
    run_embedded(replace(DemoOptions(jobs=JOBS), out=folder), Console(quiet=True))
    found = chain(learned(np.random.default_rng(1)), emulated())
    lines = [f"{name}: {_text(value)}" for name, value in found]
    (folder / FIGURES_FILE).write_text("\n".join(lines))
    loaded = {str(library.get("architecture")) for library in threadpool_info()}
    print(json.dumps(sorted(loaded - {"None"})))


def _text(figures: Figures) -> str:
    return repr(figures.tolist() if isinstance(figures, np.ndarray) else figures)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

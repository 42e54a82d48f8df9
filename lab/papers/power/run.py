"""Play the logs, score all predictors, and put it into tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cli.progress import progress_of
from lab.evaluate.plot import write_plot
from lab.evaluate.power_log import read_log
from lab.evaluate.scores import Jobs, columns, first_of_test, groups, score
from lab.papers.placement.markdown import table
from lab.papers.power import baselines
from lab.papers.power.generated import generated
from lab.papers.power.online import replayed
from lab.papers.power.speed import Speed, measured, warm
from lab.power_prediction.learner import ALL_PREDICTORS, Made, PowerLearner, replay
from services.prediction.power_trees import train_forests

Floats = NDArray[np.float64]

LAG: Final = 50
TRAIN_SHARE: Final = 0.7
ALPHAS: Final = (0.1, 0.01)
# The seed of the reported log; the predictor was chosen on none.
SEED: Final = 11


@dataclass(frozen=True, slots=True)
class Played:
    """One log and all that was predicted of it."""

    jobs: Jobs
    first: int
    made: list[Made]

    @property
    def tested(self) -> Jobs:
        """Return the test share."""
        return self.jobs[self.first :]


def played(jobs: Jobs, what: str) -> Played:
    """Play the learner on a log from its first job on."""
    made: list[Made] = []
    learner = PowerLearner(train_forests, ALPHAS)
    with progress_of(len(jobs), what) as tell:
        for _ in replay(learner, jobs, LAG, tell, lambda _, each: made.append(each)):
            pass
    return Played(jobs, first_of_test(len(jobs), TRAIN_SHARE), made)


def run(log: Path, made_jobs: int, speed_jobs: int, picture: Path | None) -> dict[str, str]:
    """Return the tables by name."""
    real = played(read_log(log).jobs, log.stem)
    made = generated(SEED, made_jobs)
    artificial = played([(each.job, each.outcome) for each in made], "generated")
    expected_w = np.array([each.expected_w for each in made])
    warm()
    if picture is not None:
        write_plot(picture, real.tested, [m.prediction for m in real.made[real.first :]], ALPHAS[0])
    known = {"power without the run's noise and failures": expected_w}
    return {
        "power errors": errors(real, {}),
        "power groups": of_groups(real),
        "power bounds": bounds(real),
        "power online": online(real.jobs, log.stem),
        "generated errors": errors(artificial, known),
        "generated groups": of_groups(artificial),
        "generated bounds": bounds(artificial),
        "power speed": speed(measured(speed_jobs)),
    }


def predictors(found: Played) -> dict[str, Floats]:
    """Return what each said of all jobs of the log, W."""
    jobs, first, made = found.jobs, found.first, found.made
    single = ("extra trees", "boosted trees", "mean of both")
    return {
        "global mean of the training share": baselines.global_mean(jobs, first, LAG),
        "a forest a user, of the training share (Borghesi et al.)": baselines.user_forest(
            jobs, first, LAG
        ),
        "exponential mean of the user's same-shape jobs": baselines.exponential_mean(jobs, LAG),
        "weighted median of ten of the history": baselines.weighted_median_of_ten(jobs, made, LAG),
        **{
            f"{name} over the history's features": baselines.said_by(
                made, ALL_PREDICTORS.index(name)
            )
            for name in single
        },
        "Coplace": np.array([each.prediction.predicted_w for each in made]),
    }


def errors(found: Played, known: Mapping[str, Floats]) -> str:
    """Return the mean absolute percent error of each predictor: of all, of new users, of first
    jobs."""
    kinds = groups(found.jobs, found.first)
    shown = [name for name in kinds if not name.startswith("fifth")]
    actual, _, _ = columns(found.tested, [each.prediction for each in found.made[found.first :]])
    rows = [
        (name, *(_mape(actual, said[found.first :], kinds[kind]) for kind in shown))
        for name, said in (predictors(found) | dict(known)).items()
    ]
    return table(("mean absolute error, %", *shown), rows)


def _mape(actual_w: Floats, predicted_w: Floats, of: NDArray[np.bool_]) -> str:
    return f"{score(actual_w, predicted_w, predicted_w, of).mape_percent:.2f}"


def of_groups(found: Played) -> str:
    """Return the coverage of each bound, by kind of job."""
    parts = columns(found.tested, [each.prediction for each in found.made[found.first :]])
    return table(
        (
            "jobs",
            "number",
            "error, %",
            *(f"at or below the {_percent(a)} bound, %" for a in ALPHAS),
        ),
        (
            (name, str(int(of.sum())), _mape(parts[0], parts[1], of), *_covered(parts, of))
            for name, of in groups(found.jobs, found.first).items()
        ),
    )


def _covered(parts: tuple[Floats, Floats, Floats], of: NDArray[np.bool_]) -> Iterator[str]:
    actual, predicted, upper = parts
    for index in range(len(ALPHAS)):
        yield f"{score(actual, predicted, upper[:, index], of).covered_percent:.2f}"


def online(jobs: Jobs, what: str) -> str:
    """Return the results of the learner of the service prediction, with and without trees: error by
    kind of job, and the share at or below the bound, over all and in its fifths."""
    first, rows = first_of_test(len(jobs), TRAIN_SHARE), []
    kinds = groups(jobs, first)
    shown = [name for name in kinds if not name.startswith("fifth")]
    for name, grows in (("what similar jobs drew, alone", False), ("and trees", True)):
        with progress_of(len(jobs), f"{what} online, {name}") as tell:
            told = list(replayed(jobs, LAG, ALPHAS[0], tell, grows_trees=grows))
        actual, predicted, upper = columns(jobs[first:], told[first:])
        of = {kind: score(actual, predicted, upper[:, 0], mask) for kind, mask in kinds.items()}
        fifths = sorted(each.covered_percent for kind, each in of.items() if kind not in shown)
        errors = (f"{of[kind].mape_percent:.2f}" for kind in shown)
        covered = f"{of[shown[0]].covered_percent:.2f}, {fifths[0]:.2f} to {fifths[-1]:.2f}"
        rows.append((name, *errors, covered, f"{of[shown[0]].width_w:.1f}"))
    header = ("online: mean absolute error, %", *shown, "at or below the 90 % bound, %", "width, W")
    return table(header, rows)


def bounds(found: Played) -> str:
    """Return the mean width of each bound beside fixed margins of equal coverage, chosen in
    hindsight."""
    kinds = groups(found.jobs, found.first)
    actual, predicted, upper = columns(
        found.tested, [each.prediction for each in found.made[found.first :]]
    )
    of, fifths = kinds["all of the test share"], [k for n, k in kinds.items() if "fifth" in n]
    rows = []
    for index, alpha in enumerate(ALPHAS):
        own = score(actual, predicted, upper[:, index], of)
        margin_w = float(np.quantile((actual - predicted)[of], own.covered_percent / 100))
        fixed = [score(actual, predicted, predicted + margin_w, each) for each in fifths]
        covered = sorted(each.covered_percent for each in fixed)
        rows.append(
            (
                *(f"{_percent(alpha)} bound", f"{own.width_w:.1f}", f"{margin_w:.1f}"),
                f"{covered[0]:.2f} to {covered[-1]:.2f}",
            )
        )
    header = ("", "mean width, W", "fixed margin of equal coverage, W", "its coverage of fifths, %")
    return table(header, rows)


def _percent(alpha: float) -> str:
    return f"{100 * (1 - alpha):g} %"


def speed(found: Speed) -> str:
    """Return what it costs."""
    trained = found.history_s + found.training_s
    rows = [
        (f"learn {found.jobs:,} jobs from nothing", f"{trained:.1f} s"),
        ("of that: grow the trees", f"{found.training_s:.1f} s"),
        ("update with one job", f"{1e6 * found.update_s:.0f} us"),
        ("predictions of the forests a second", f"{found.asked / found.forests_s:,.0f}"),
        ("whole predictions a second", f"{found.asked / found.prediction_s:,.0f}"),
        ("memory", f"{found.grown_bytes / 2**20:.0f} MiB"),
    ]
    return table(("one core", "CPU time"), rows)

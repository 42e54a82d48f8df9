"""Hold predictions and pairing to measured pairs, and put it into tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.figure import Figure

from cli.progress import progress_of
from lab.evaluate import degradation
from lab.evaluate.pair_files import PairFiles, read_pairs
from lab.papers.colocation import models, queues
from lab.papers.colocation.pair_rows import counter_sets, profile_sets
from lab.papers.colocation.speed import all_pairs_rows, from_counters_rows, matching_rows
from lab.papers.colocation.timeline import write_timeline
from lab.papers.placement.markdown import table
from shared.process.pictures import save_png

Makespans = dict[str, float]
MOST_SERVERS: Final = 5
KERNELS: Final = Path(__file__).with_name("kernels")
"""What `coplace profile` measured of its own kernels, with a description."""


def run(folder: Path, picture: Path) -> dict[str, str]:
    """Return the tables by name."""
    files = read(folder)
    drawn = draw(files, queues.QUEUES)
    single = [queues.makespans(queue) for queue in drawn]
    write_picture(picture, single)
    write_timeline(picture.with_name("colocation-timeline.png"), drawn)
    return {
        "degradation errors": errors(files),
        "colocation queues": of_queues(single),
        "colocation levels": of_levels(drawn),
        "colocation servers": of_servers(files, drawn),
        "all pairs": table(
            ["jobs", "trees", "scikit-learn, ms", "separable, ms", "times"], all_pairs_rows()
        ),
        "matching": table(["matching", "jobs", "CPU, ms", "above the least, %"], matching_rows()),
        "from counters": table(["matching", "jobs", "trees", "CPU, ms"], from_counters_rows()),
    }


def on_kernels(folder: Path = KERNELS) -> dict[str, str]:
    """Return the tables of pairs that a campaign measured here."""
    files = read(folder)
    single = [queues.makespans(queue) for queue in draw(files, queues.QUEUES)]
    return {"kernel errors": errors(files), "kernel queues": of_queues(single)}


def of_zacarias(folder: Path) -> dict[str, str]:
    """Return the tables of models by counters, and of what replaces counters in a folder of
    published pairs; and of how a model is chosen."""
    kernels, spec = read(KERNELS), read(folder)
    by_profile = profile_sets(kernels.profiles)
    by_counters = counter_sets(KERNELS / "alone.csv", kernels.profiles) | by_profile
    found: dict[str, str] = {}
    for name, files, features in (
        ("kernel models", kernels, by_counters),
        ("SPEC models", spec, profile_sets(spec.profiles)),
    ):
        judged = models.judged(files, features)
        found |= {name: models.of_models(judged), f"{name} chosen": models.of_choices(judged)}
    return found


def read(folder: Path) -> PairFiles:
    """Read the three files of a folder."""
    names = ("pairs", "sensitivity", "contentiousness")
    return read_pairs(*(folder / f"{name}.csv" for name in names))


def draw(files: PairFiles, many: int, jobs: int = queues.JOBS) -> list[queues.Queue]:
    """Draw queues of the first seeds."""
    found = []
    with progress_of(many, "queues") as tell:
        for seed in range(many):
            found.append(queues.drawn(files, seed, jobs))
            tell(seed + 1)
    return found


def errors(files: PairFiles) -> str:
    """Return each predictor on what was held out."""
    found = degradation.scores(degradation.evaluated(files))
    rows = [
        [kind, name, str(each.rows), f"{each.r2:.3f}", f"{each.rel_perf_error:.4f}"]
        for (kind, name), each in found.items()
    ]
    return table(["held out", "predictor", "rows", "R²", "error of T_alone / T_co"], rows)


def gained(makespans: Sequence[Makespans], name: str) -> float:
    """Return what a policy gains on FIFO, as a share of what blossom with perfect degradation
    gains."""
    said, perfect = (
        np.array([1 - each[of] for each in makespans]).sum() for of in (name, "blossom, perfect")
    )
    return float(said / perfect)


def of_queues(makespans: Sequence[Makespans]) -> str:
    """Return makespans as shares of FIFO's."""
    rows = []
    for name in makespans[0]:
        shares = np.array([each[name] for each in makespans])
        figures = (shares.mean(), shares.min(), shares.max(), gained(makespans, name))
        rows.append([name, *(f"{100 * figure:.1f}" for figure in figures)])
    header = ["makespan, % of FIFO", "mean", "best", "worst", "gain, % of perfect blossom's"]
    return table(header, rows)


def of_levels(drawn: Sequence[queues.Queue]) -> str:
    """Return means over those queues that have as many such neighbours as to fill a fifth of a
    queue."""
    header, rows = ["policy"], dict[str, list[str]]()
    for level in queues.LEVELS:
        ordered = [queues.at_level(queue, level, n) for n, queue in enumerate(drawn)]
        kept = [queue for queue in ordered if len(queue.alone_s) >= queues.JOBS // 5]
        jobs = np.mean([len(queue.alone_s) for queue in kept]) if kept else 0.0
        header.append(f"{level}: {len(kept)} queues of {jobs:.0f} jobs")
        found = [queues.makespans(queue) for queue in kept]
        for name in queues.makespans(drawn[0]):
            shares = [each[name] for each in found]
            rows.setdefault(name, []).append(f"{100 * np.mean(shares):.1f}" if shares else "-")
    return table(header, ([name, *cells] for name, cells in rows.items()))


def of_servers(files: PairFiles, single: Sequence[queues.Queue]) -> str:
    """Return 1 to 5 servers, with as many times the jobs (figure 11); five queues each."""
    rows = []
    for servers in range(1, MOST_SERVERS + 1):
        drawn = single[:5] if servers == 1 else draw(files, 5, servers * queues.JOBS)
        found = [queues.makespans(queue, servers) for queue in drawn]
        names = ("FIFO shared", "Distributed Intensity", "greedy, predicted", "blossom, predicted")
        shares = [np.mean([each[name] for each in found]) for name in (*names, "blossom, perfect")]
        rows.append([str(servers), *(f"{100 * share:.1f}" for share in shares)])
    header = ["servers", "FIFO shared", "DI", "greedy", "blossom", "blossom, perfect"]
    return table(header, rows)


def write_picture(path: Path, makespans: Sequence[Makespans]) -> None:
    """Draw the makespan of each queue under each policy, FIFO at 1 (figure 10)."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    axes = figure.subplots()
    names = list(makespans[0])
    axes.boxplot([[each[name] for each in makespans] for name in names], whis=(0, 100))
    axes.set_xticks(range(1, len(names) + 1), names, rotation=20, ha="right")
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set(ylabel="makespan / FIFO's", ylim=(0, None))
    save_png(figure, path)

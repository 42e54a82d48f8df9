"""`python -m lab.papers.colocation.real`: a queue of real programs on this machine's cores,
one after the other, side by side in order of arrival, and in pairs that a policy chose.

The pairs are blossom's, by degradation that a model predicts which saw none of the queue's
applications, neither as targets nor as neighbours.
"""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import numpy as np
import typer

from cli.failures import ReportingGroup
from cli.main import Out
from cli.profile.campaign import Campaign, read_campaign, split_command
from cli.progress import progress_of
from lab.evaluate.pair_files import PairFiles
from lab.papers.colocation.run import KERNELS, read
from lab.papers.options import Into
from lab.papers.placement.markdown import table, write_tables
from services.prediction.degradation_trees import train_extra_trees
from shared.colocation.model import DegradationModel
from shared.colocation.pairing import Matching, blossom, saved_s

_APPS: Final = 6
# Beginning behind one another, a job or a pair at a time; None: whoever of two slots is free first.
Plan = Sequence[tuple[int, ...]] | None
app = typer.Typer(cls=ReportingGroup)


@app.callback(invoke_without_command=True)
def play(
    campaign: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="Of the programs, as it was run.")
    ],
    profile: Annotated[
        Path, typer.Option(exists=True, file_okay=False, help="Folder of its tables.")
    ] = KERNELS,
    config: Annotated[str, typer.Option(help="The placement of both jobs of a node.")] = (
        "shared-cores"
    ),
    jobs: Annotated[int, typer.Option(min=4, max=1_000)] = 20,
    repetitions: Annotated[int, typer.Option(min=1, max=100)] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Draws the queue.")] = 1,
    out: Out = Path("out/colocation"),
    into: Into = None,
) -> None:
    """Play one queue under each policy, by turns, and compare wall-clock makespans."""
    out.mkdir(parents=True, exist_ok=True)
    programs = read_campaign(campaign)
    queue, matching = planned(read(profile), config, jobs, seed)
    paired = {job for pair in matching for job in pair}
    alone = [(job,) for job in range(jobs)]
    plans: Mapping[str, Plan] = {
        "FIFO": alone,
        "FIFO shared": None,
        "blossom, predicted": [*matching, *(each for each in alone if each[0] not in paired)],
    }
    makespans_s: dict[str, list[float]] = {name: [] for name in plans}
    with progress_of(repetitions * len(plans), "queues") as tell:
        for _ in range(repetitions):
            for name, plan in plans.items():
                makespans_s[name].append(makespan_s(programs, config, queue, plan))
                tell(sum(map(len, makespans_s.values())))
    header = ["policy", "pairs", "makespan, s", "of FIFO's in the same repetition"]
    pairs = {"FIFO": "0", "FIFO shared": "as they come", "blossom, predicted": str(len(matching))}
    rows = (
        [name, pairs[name], *_shown(each, makespans_s["FIFO"])]
        for name, each in makespans_s.items()
    )
    typer.echo(write_tables({"colocation real": table(header, rows)}, out, into))


def planned(files: PairFiles, config: str, jobs: int, seed: int) -> tuple[list[str], Matching]:
    """Return applications in the order of arrival, and which of them share, by a model that has
    seen none of them."""
    rng = np.random.default_rng(seed)
    machine = files.profiles.machines.index(config)
    held = rng.permutation(len(files.profiles.apps))[:_APPS]
    apps = rng.choice(held, jobs)
    left = files.degradation.copy()
    left[:, held, :] = left[:, :, held] = np.nan
    model = DegradationModel(files.profiles, left, partial(train_extra_trees, seed=seed))
    saved = saved_s(files.profiles.alone_s[machine, apps], 100 * model.all_pairs(machine, apps))
    return [files.profiles.apps[each] for each in apps], blossom(saved)


def makespan_s(campaign: Campaign, config: str, queue: Sequence[str], plan: Plan) -> float:
    """Measure the time from the first start to the last end of a queue, wall clock.

    Raises CalledProcessError where a program fails, and leaves none running.
    """
    running: list[subprocess.Popen[bytes]] = []
    with TemporaryDirectory(prefix="coplace-real-") as folder:

        def start(name: str, slot: int) -> subprocess.Popen[bytes]:
            running.append(_started(campaign, config, folder, name, slot))
            return running[-1]

        began_s = time.monotonic()
        try:
            if plan is None:
                _play_in_two_slots(queue, start)
            else:
                _play_in_order(queue, plan, start)
        finally:
            for process in running:
                process.kill()
                process.wait()
        return time.monotonic() - began_s


def _play_in_order(
    queue: Sequence[str],
    plan: Sequence[tuple[int, ...]],
    start: Callable[[str, int], subprocess.Popen[bytes]],
) -> None:
    for together in plan:
        for process in [start(queue[job], slot) for slot, job in enumerate(together)]:
            _require_ended(process)


def _play_in_two_slots(
    queue: Sequence[str], start: Callable[[str, int], subprocess.Popen[bytes]]
) -> None:
    waiting: Iterator[str] = iter(queue)
    slots = {slot: start(name, slot) for slot, name in zip(range(2), waiting, strict=False)}
    while slots:
        for slot, process in list(slots.items()):
            if process.poll() is None:
                continue
            _require_ended(slots.pop(slot))
            following = next(waiting, None)
            if following is not None:
                slots[slot] = start(following, slot)
        time.sleep(0.001)


def _started(
    campaign: Campaign, config: str, folder: str, name: str, slot: int
) -> subprocess.Popen[bytes]:
    place = campaign.placements[config]
    cores = place.beside if slot else place.primary
    pinned = ["taskset", "--cpu-list", ",".join(map(str, cores))]
    return subprocess.Popen([*pinned, *split_command(campaign.commands[name], cores)], cwd=folder)


def _require_ended(process: subprocess.Popen[bytes]) -> None:
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, process.args)


def _shown(makespans_s: Sequence[float], fifo_s: Sequence[float]) -> list[str]:
    shares = [each / one for each, one in zip(makespans_s, fifo_s, strict=True)]
    return [_with_sd(makespans_s, 1.0, ".1f"), _with_sd(shares, 100.0, ".1f") + " %"]


def _with_sd(values: Sequence[float], factor: float, digits: str) -> str:
    sd = stdev(values) if len(values) > 1 else 0.0
    return f"{factor * fmean(values):{digits}} ± {factor * sd:{digits}}"


if __name__ == "__main__":
    app()

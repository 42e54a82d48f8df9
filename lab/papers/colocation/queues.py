"""Random queues of applications whose pairs were measured: makespans of every way to share.

The queue's applications are held out of training, in both roles and on all machines. No application
was measured beside itself: two such jobs may not share, under any policy.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from lab.evaluate.pair_files import PairFiles
from services.prediction.degradation_trees import train_extra_trees
from shared.colocation.history import Ints, Mask
from shared.colocation.makespan import fifo, fifo_shared, makespan_s, paired
from shared.colocation.measured import Floats
from shared.colocation.model import DegradationModel
from shared.colocation.pairing import (
    Matching,
    blossom,
    distributed_intensity,
    greedy,
    saved_s,
    together_s,
    two_opt,
)

QUEUES: Final = 20
JOBS: Final = 50
APPS: Final = 8
LEVELS: Final = ("low", "medium", "high")
_LEVEL_QUEUES: Final = 5
_LEVEL_BOUNDS: Final = {"low": (0.0, 0.75), "medium": (0.75, 1.0), "high": (1.0, np.inf)}


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """Jobs in the order of arrival: names of applications, run times alone, and degradation as it
    was measured and as it was predicted, shares, (jobs, jobs); `intensity` is contentiousness,
    which replaces the misses of the last-level cache that nobody counted."""

    apps: tuple[str, ...]
    alone_s: Floats
    measured: Floats
    predicted: Floats
    intensity: Floats


@dataclass(frozen=True, slots=True, eq=False)
class QueuedApps:
    """What the jobs of a queue run on a machine, as indexes, and which applications they are of."""

    machine: int
    held: Ints
    apps: Ints

    def hidden(self, degradation: Floats) -> Mask:
        """Return the pairs that one of these applications has part in, on all machines."""
        found = np.zeros(degradation.shape, dtype=np.bool_)
        found[:, self.held, :] = found[:, :, self.held] = True
        return found


def queued_apps(files: PairFiles, seed: int, jobs: int = JOBS) -> QueuedApps:
    """Draw jobs of APPS applications on one machine, all by the seed."""
    rng = np.random.default_rng(seed)
    machine = int(rng.integers(len(files.profiles.machines)))
    of_machine = ~np.isnan(files.degradation[machine]).all(axis=1)
    held = rng.permutation(np.flatnonzero(of_machine))[:APPS]
    return QueuedApps(machine, held, rng.choice(held, jobs))


def drawn(files: PairFiles, seed: int, jobs: int = JOBS) -> Queue:
    """Draw a queue by the seed, and what a model predicts of it that knows no pair of its
    applications."""
    queued = queued_apps(files, seed, jobs)
    machine, apps = queued.machine, queued.apps
    left = np.where(queued.hidden(files.degradation), np.nan, files.degradation)
    model = DegradationModel(files.profiles, left, partial(train_extra_trees, seed=seed))
    measured = files.degradation[machine][np.ix_(apps, apps)]
    predicted = np.where(np.isnan(measured), np.nan, model.all_pairs(machine, apps))
    profiles = files.profiles
    return Queue(
        tuple(profiles.apps[each] for each in apps),
        profiles.alone_s[machine, apps],
        measured,
        predicted,
        profiles.contentiousness[machine, apps],
    )


def matchings(queue: Queue) -> Iterator[tuple[str, Matching]]:
    """Yield each policy that fixes pairs before the first job begins."""
    yield "Distributed Intensity", distributed_intensity(queue.intensity)
    for name, degradation in ("predicted", queue.predicted), ("perfect", queue.measured):
        saved = saved_s(queue.alone_s, 100 * degradation)
        first = greedy(saved)
        yield f"greedy, {name}", first
        yield f"greedy + 2-opt, {name}", two_opt(saved, first)
        yield f"blossom, {name}", blossom(saved)


def makespans(queue: Queue, servers: int = 1) -> dict[str, float]:
    """Return makespans by policy, as a share of FIFO's."""
    fifo_s = makespan_s(fifo(queue.alone_s, servers))
    shared = fifo_shared(queue.alone_s, queue.measured, servers)
    found = {"FIFO shared": makespan_s(shared) / fifo_s}
    for name, matching in matchings(queue):
        runs = paired(queue.alone_s, queue.measured, matching, servers)
        found[name] = makespan_s(runs) / fifo_s
    return found


def at_level(queue: Queue, level: str, seed: int) -> Queue:
    """Return the queue in another order: as many neighbours in the order of arrival as there are
    take, together, the level's share of one after the other (section 4.4.1)."""
    least, most = _LEVEL_BOUNDS[level]
    in_turn = queue.alone_s[:, np.newaxis] + queue.alone_s
    share = together_s(queue.alone_s, 100 * queue.measured) / in_turn
    wanted = (share >= least) & (share < most) & np.isfinite(share)
    left = np.random.default_rng(seed).permutation(len(queue.alone_s)).tolist()
    order: list[int] = []
    while left:
        job = left.pop(0)
        fitting = [other for other in left if wanted[job, other]]
        if fitting:
            left.remove(fitting[0])
            order += [job, fitting[0]]
    return _only(queue, np.array(order, dtype=np.int64))


def first_of(queue: Queue, jobs: int) -> Queue:
    """Return the first jobs alone."""
    return _only(queue, np.arange(jobs))


def _only(queue: Queue, jobs: np.ndarray) -> Queue:
    square = np.ix_(jobs, jobs)
    return Queue(
        tuple(queue.apps[job] for job in jobs),
        queue.alone_s[jobs],
        queue.measured[square],
        queue.predicted[square],
        queue.intensity[jobs],
    )

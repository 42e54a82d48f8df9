"""Tasks with deadlines on nodes whose cores they share, played under slack-based scheduling.

Dauwe et al. (2016), sections 6.4 and 6.6.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

import numpy as np

from shared.scheduling.dispatch import Served
from shared.scheduling.engine import Engine
from shared.scheduling.slack import SlackScheduler, Task, UnitInterference

# Deadlines are so many times the run time alone after the arrival, drawn uniformly (equation 9).
LEAST_FACTOR: Final = 1.2
MOST_FACTOR: Final = 2.0


class TimedTasks(NamedTuple):
    """Tasks in the order of their arrivals."""

    arrive_s: Sequence[float]
    tasks: Sequence[Task]


class CoreUsage(NamedTuple):
    """Cores with a task, and nodes with such a core, from this instant on."""

    time_s: float
    cores: int
    nodes: int


class MeanUsage(NamedTuple):
    """Means over time, shares: core utilization (equation 13), node utilization (14), and core
    utilization of active nodes (15), the last over the time at which any node is active."""

    cores: float
    nodes: float
    cores_of_active: float


@dataclass(frozen=True, slots=True)
class DeadlineRun:
    """How many tasks met their deadlines, were removed at them while they ran, and never ran; and
    what was in use, whenever that changed."""

    met: int
    missed: int
    unassigned: int
    usage: tuple[CoreUsage, ...]


def drawn_tasks(
    alone_s: Sequence[float], many: int, interarrival_s: float, seed: int
) -> TimedTasks:
    """Draw applications uniformly, with arrivals of a Poisson process from 0 on (section 6.4)."""
    rng = np.random.default_rng(seed)
    gaps_s = rng.exponential(interarrival_s, many)
    gaps_s[:1] = 0.0
    arrive_s = np.cumsum(gaps_s)
    apps = rng.integers(len(alone_s), size=many)
    factors = rng.uniform(LEAST_FACTOR, MOST_FACTOR, many)
    deadline_s = arrive_s + factors * np.array(alone_s)[apps]
    tasks = [Task(*each) for each in zip(apps.tolist(), deadline_s.tolist(), strict=True)]
    return TimedTasks(arrive_s.tolist(), tasks)


def play_deadlines(
    timed: TimedTasks, nodes: int, believed: UnitInterference, actual: UnitInterference
) -> DeadlineRun:
    """Play all tasks until the last has left: see SlackScheduler."""
    tasks = timed.tasks
    scheduler = SlackScheduler(nodes, believed, actual, iter(tasks))

    def runs_s(served: Served) -> float:
        return actual.alone_s[tasks[served[1].arrival].app]

    engine = Engine(scheduler, timed.arrive_s, runs_s, timed.arrive_s[0] if tasks else inf)
    started, usage = 0, list[CoreUsage]()
    while engine.next_s < inf:
        started += len(engine.step())
        usage.append(CoreUsage(engine.now_s, *scheduler.active))
    missed = len(scheduler.missed)
    return DeadlineRun(started - missed, missed, len(tasks) - started, tuple(usage))


def mean_usage(usage: Iterable[CoreUsage], nodes: int, cores: int, until_s: float) -> MeanUsage:
    """Return the mean usage of so many nodes with so many cores each, up to an instant."""
    total_s = active_s = core_s = node_s = of_active_s = 0.0
    for now, then in pairwise([*usage, CoreUsage(inf, 0, 0)]):
        lasts_s = max(min(then.time_s, until_s) - now.time_s, 0.0)
        total_s += lasts_s
        core_s += lasts_s * now.cores
        node_s += lasts_s * now.nodes
        if now.nodes:
            active_s += lasts_s
            of_active_s += lasts_s * now.cores / (now.nodes * cores)
    all_s = total_s * nodes or 1.0
    return MeanUsage(core_s / (all_s * cores), node_s / all_s, of_active_s / (active_s or 1.0))

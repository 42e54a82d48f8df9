"""What the prediction service remembers, in tables that a changelog rebuilds."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.streams.stages.table import Table

T = TypeVar("T")


# What a job has of a node that shares it where nobody says more.
HALF: Final = 0.5


class MeanReading(NamedTuple):
    """The newest readings of one node: their mean."""

    time_us: int
    event_id: str
    node_model: str
    power_w: float


class Traffic(NamedTuple):
    """How an application behaves on a node model: its newest run at the highest P-state. 0 is
    not known: of a state of before trees of pairs asked."""

    freq_ghz: float
    time_us: int
    event_id: str
    mem_gbps: float
    cpi: float = 0.0
    power_w: float = 0.0


class FinishedRun(NamedTuple):
    """An attempt that ended, by which copies are recognised."""

    time_us: int


class CoRunPair(NamedTuple):
    """What the shutters of one interval said, and the shares of a node's cores of both jobs."""

    time_us: int
    app_id: str
    co_runner_app_id: str
    node_model: str
    slowdown_ratio: float
    core_share: float = HALF
    co_runner_core_share: float = HALF


class TrainingProgress(NamedTuple):
    """What was published: the rows that each model was trained on, the known node models; and how
    many rows were forgotten since."""

    runs: int = 0
    pairs: int = 0
    node_models: tuple[str, ...] | None = None
    forgotten_runs: int = 0
    forgotten_pairs: int = 0


class State:
    """What prediction keeps: clusters, jobs, finished runs, pairs, readings and progress."""

    def __init__(self, restored: Mapping[str, bytes]) -> None:
        self.clusters = Table(
            "cluster",
            restored,
            _as_is,
            Cluster.restored,
        )
        self.jobs = Table("job", restored, _as_is, Job.restored)
        self.runs = Table(
            "run",
            restored,
            list,
            lambda v: FinishedRun(v[0]),
        )
        self.pairs = Table("pair", restored, list, lambda v: CoRunPair(*v))
        # Intervals of this round: no version was compared with them yet.
        self.new_pairs = Table("new-pair", restored, bool, bool)
        # The weights that were published last.
        self.weights = Table("weights", restored, list, tuple)
        self.nodes = Table("node", restored, list, lambda v: MeanReading(*v))
        self.traffic = Table("traffic", restored, list, lambda v: Traffic(*v))
        self.progress = Table("progress", restored, list, _progress)

    def peak_gbps(self, node_model: str) -> float | None:
        """Return what a node of a model moves at most."""
        clusters = self.clusters.values()
        found = [c.peak_bandwidth_gbps for c in clusters if c.node_model == node_model]
        return found[-1] if found else None

    def changes(self) -> dict[str, bytes | None]:
        """Return records of what changed since the last call."""
        tables: tuple[Table[Any], ...] = (
            self.clusters,
            self.jobs,
            self.runs,
            self.pairs,
            self.new_pairs,
            self.weights,
            self.nodes,
            self.traffic,
            self.progress,
        )
        return {key: value for table in tables for key, value in table.changes().items()}


def _as_is(value: T) -> T:
    """JSON knows dataclasses."""
    return value


def _progress(value: list[Any]) -> TrainingProgress:
    runs, pairs, node_models, *forgotten = value
    return TrainingProgress(runs, pairs, node_models and tuple(node_models), *forgotten)

"""What the prediction service remembers, in tables that a changelog rebuilds."""

from typing import Final, NamedTuple

from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.streams.state.rows import RowCodec
from shared.streams.state.state import State

# What a job has of a node that shares it where nobody says more.
HALF: Final = 0.5
# The fields of the version before, in their order.
_CLUSTERS_BEFORE: Final = (
    *("name", "site", "node_model", "nodes", "cores_per_node", "pstates_ghz", "idle_power_w"),
    *("peak_bandwidth_gbps", "memory_gib_per_node", "architecture", "node_names"),
    *("declared_classes", "nameplate_power_w", "processors_tdp_w", "partitions"),
    "shares_unpredicted",
)
_CLUSTERS: Final = RowCodec(
    Cluster,
    version=4,
    previous=RowCodec(Cluster, version=3, only=_CLUSTERS_BEFORE).decode,
)
_JOBS_BEFORE: Final = (
    *("job_id", "attempt", "app_id", "user", "account", "nodes", "walltime_s"),
    *("reference_cluster", "shareable", "submit_s", "priority", "memory_gib", "architectures"),
    *("cores_per_unit", "memory_gib_per_unit", "resources_per_unit", "units_per_node"),
    *("begin_s", "deadline_s", "depends_on_any", "job_name", "sequence", "partitions", "features"),
    *("nodes_wanted", "nodes_excluded", "clusters", "home_cluster", "qos", "reservation"),
    *("array", "array_at_most", "array_id", "array_index", "array_ordinal", "parts", "licences"),
    *("manager_priority", "is_interactive", "starts_within_s", "millicores_per_unit"),
)
_JOBS: Final = RowCodec(Job, version=4, previous=RowCodec(Job, version=3, only=_JOBS_BEFORE).decode)


class MeanReading(NamedTuple):
    """The newest readings of one node: their mean."""

    time_us: int
    event_id: str
    node_model: str
    power_w: float


class Traffic(NamedTuple):
    """How an application behaves on a node model: its newest run at the highest P-state. 0 is
    not known."""

    freq_ghz: float
    time_us: int
    event_id: str
    mem_gbps: float
    cpi: float
    power_w: float


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


class Remembered:
    """What prediction keeps: clusters, jobs, finished runs, pairs, readings and progress."""

    def __init__(self, state: State) -> None:
        self.clusters = state.table("cluster", _CLUSTERS)
        self.jobs = state.table("job", _JOBS)
        self.runs = state.table("run", FinishedRun)
        self.pairs = state.table("pair", CoRunPair)
        # Intervals that came in this round: no version was held to them yet.
        self.new_pairs = state.table("new-pair", bool)
        # The weights of degradation that were published last.
        self.weights = state.value("weights", tuple[float, ...])
        self.nodes = state.table("node", MeanReading)
        self.traffic = state.table("traffic", Traffic)
        self.progress = state.value("progress", TrainingProgress)

    def peak_gbps(self, node_model: str) -> float | None:
        """Return what a node of a model moves at most."""
        clusters = self.clusters.values()
        found = [c.peak_bandwidth_gbps for c in clusters if c.node_model == node_model]
        return found[-1] if found else None

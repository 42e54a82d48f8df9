"""The jobs of the sample: some end in seconds, some run for hours, and the rest waits for them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lab.emulator.facts import EPOCH_US
from lab.workloads.request import JobRequest
from lab.workloads.table1 import profile
from shared.domain.cluster import Cluster

# Of each of both clusters.
NODES: Final = 16
SEED: Final = 1
_HOUR_S: Final = 3600.0
# Users ask for more than they need.
_ASKED: Final = 1.5


class _Wanted(NamedTuple):
    """A job: after how many seconds, of whom, what, where, on how many nodes, for how long."""

    after_s: float
    user: str
    account: str
    app_id: str
    cluster: str
    nodes: int
    runtime_s: float


_WANTED: Final = (
    _Wanted(0, "ada", "physics", "lu.C", "p1", 4, 6.0),
    _Wanted(0, "bob", "chemistry", "bt-mz.C", "p2", 2, 8.0),
    _Wanted(1, "eve", "weather", "STREAM", "p2", 2, 9.0),
    _Wanted(2, "ada", "physics", "lu.C", "p1", 8, 5 * _HOUR_S),
    _Wanted(2, "bob", "chemistry", "bt-mz.C", "p2", 8, 4 * _HOUR_S),
    _Wanted(3, "eve", "weather", "STREAM", "p2", 6, 3 * _HOUR_S),
    _Wanted(3, "eve", "weather", "ep.D", "p1", 6, 2 * _HOUR_S),
    _Wanted(4, "ada", "physics", "lu.C", "p1", 12, 3 * _HOUR_S),
    _Wanted(5, "bob", "chemistry", "bt-mz.C", "p2", 16, 1 * _HOUR_S),
    _Wanted(6, "eve", "weather", "ep.D", "p1", 10, 1 * _HOUR_S),
)


def sample_jobs(begun_at_us: int, clusters: Sequence[Cluster]) -> list[JobRequest]:
    """Return the jobs of a sample that began then."""
    models = {each.name: each.node_model for each in clusters}
    begun_s = (begun_at_us - EPOCH_US) / 1e6
    return [
        JobRequest(
            index=number,
            app_id=each.app_id,
            user=each.user,
            account=each.account,
            nodes=each.nodes,
            shareable=False,
            repetitions=each.runtime_s / profile(each.app_id, models[each.cluster]).time_s,
            walltime_s=_ASKED * each.runtime_s,
            submit_s=begun_s + each.after_s,
            reference_cluster=each.cluster,
        )
        for number, each in enumerate(_WANTED, start=1)
    ]

"""The built-in workload: Lublin-Feitelson jobs that repeat the applications of Table 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coplace_client.checks import require_count, require_positive
from coplace_client.errors import UnusableError
from lab.workloads import lublin
from lab.workloads.lublin import Floats, Ints
from lab.workloads.request import JobRequest
from lab.workloads.streams import Stream, shareable, stream
from lab.workloads.table1 import APPS, profile
from lab.workloads.walltimes import walltimes_s
from shared.domain.cluster import Cluster

USERS: Final = 40
ACCOUNTS: Final = 8


@dataclass(frozen=True, slots=True)
class _Draws:
    """What is drawn for each job, before the arrivals are scaled: arrays of shape (jobs,)."""

    reference: Ints
    app: Ints
    user: Ints
    nodes: Ints
    shareable: NDArray[np.bool]
    repetitions: Floats
    runtime_s: Floats
    walltime_s: Floats
    arrival_s: Floats


def built_in(
    seed: int, jobs: int, clusters: Sequence[Cluster], offered_load: float = 0.9
) -> list[JobRequest]:
    """Draw `jobs` requests in the order of their submission, the same for the same arguments.

    A longer workload begins with the same jobs; only their arrivals change, since one factor
    scales them to the offered load: sum(nodes x nominal runtime on the reference cluster) over
    (nodes of all clusters x last arrival). Raises RejectedError or UnusableError for arguments that
    allow no workload.
    """
    require_count("jobs", jobs)
    require_positive("offered_load", offered_load)
    if not clusters:
        raise UnusableError("a workload needs at least one cluster to refer to, got none")
    draws = _draw(seed, jobs, clusters)
    submit_s = draws.arrival_s * _arrival_scale(draws, clusters, offered_load)
    return [_request(i, draws, submit_s, clusters) for i in range(jobs)]


def _draw(seed: int, jobs: int, clusters: Sequence[Cluster]) -> _Draws:
    machine_nodes = np.array([cluster.nodes for cluster in clusters])
    reference = _weighted(seed, Stream.REFERENCE_CLUSTER, jobs, machine_nodes)
    app = _weighted(seed, Stream.APP, jobs, np.ones(len(APPS)))
    nodes = lublin.sizes(stream(seed, Stream.SIZE), machine_nodes[reference])
    once_s = np.array([[profile(a, c.node_model).time_s for c in clusters] for a in APPS])
    once_s = once_s[app, reference]
    wanted_s = lublin.runtimes_s(stream(seed, Stream.RUNTIME), nodes)
    repetitions = np.maximum(1.0, np.rint(wanted_s / once_s))
    return _Draws(
        reference=reference,
        app=app,
        user=_weighted(seed, Stream.USER, jobs, 1 / np.arange(1, USERS + 1)),
        nodes=nodes,
        shareable=shareable(seed, jobs),
        repetitions=repetitions,
        runtime_s=repetitions * once_s,
        walltime_s=walltimes_s(seed, repetitions * once_s),
        arrival_s=lublin.arrivals_s(stream(seed, Stream.ARRIVAL), jobs),
    )


def _weighted(seed: int, purpose: Stream, jobs: int, weights: Floats | Ints) -> Ints:
    """An index into `weights` for each job, drawn in proportion to them, (jobs,)."""
    share = weights / weights.sum()
    return stream(seed, purpose).choice(len(share), size=jobs, p=share)


def _arrival_scale(draws: _Draws, clusters: Sequence[Cluster], offered_load: float) -> float:
    work_node_s = float((draws.nodes * draws.runtime_s).sum())
    total_nodes = sum(cluster.nodes for cluster in clusters)
    return work_node_s / (offered_load * total_nodes) / float(draws.arrival_s[-1])


def _request(i: int, draws: _Draws, submit_s: Floats, clusters: Sequence[Cluster]) -> JobRequest:
    user = int(draws.user[i])
    return JobRequest(
        index=i,
        app_id=tuple(APPS)[draws.app[i]],
        user=f"user{user:02d}",
        account=f"account{user % ACCOUNTS}",
        nodes=int(draws.nodes[i]),
        shareable=bool(draws.shareable[i]),
        repetitions=float(draws.repetitions[i]),
        walltime_s=float(draws.walltime_s[i]),
        submit_s=float(submit_s[i]),
        reference_cluster=clusters[draws.reference[i]].name,
    )

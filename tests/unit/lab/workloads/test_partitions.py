"""The built-in workload may ask for partitions and features."""

from lab.emulator.app import workload
from lab.emulator.settings import SimulationSettings
from lab.workloads.clusters import clusters
from lab.workloads.partitions import BATCH, DEBUG, DEBUG_WALLTIME_S, with_partitions
from shared.scheduling.eligibility import nodes_of_partition, nodes_with


def settings(share: float, jobs: int = 200) -> SimulationSettings:
    return SimulationSettings(jobs=jobs, partitions_share=share)


def test_no_job_asks_for_a_partition_where_none_is_asked_for() -> None:
    requests, emulated = workload(settings(0.0))
    assert not any(request.partitions for request in requests)
    assert not any(cluster.partitions for cluster in emulated)


def test_short_jobs_may_be_in_either_partition() -> None:
    requests, _ = workload(settings(1.0))
    for request in requests:
        is_short = request.walltime_s <= DEBUG_WALLTIME_S
        assert request.partitions == ((DEBUG, BATCH) if is_short else (BATCH,))


def test_a_longer_workload_begins_with_the_same_places() -> None:
    few, _ = workload(settings(0.5))
    many, _ = workload(settings(0.5, jobs=300))
    places = [(each.partitions, each.features) for each in few]
    assert places == [(each.partitions, each.features) for each in many[:200]]


def test_the_partitions_of_a_cluster_overlap_and_some_nodes_have_a_feature() -> None:
    cluster = with_partitions(clusters(64)[0])
    debug, batch = (nodes_of_partition(cluster, name) for name in (DEBUG, BATCH))
    assert [debug.bit_count(), batch.bit_count(), (debug & batch).bit_count()] == [16, 56, 8]
    assert nodes_with(cluster, "ib").bit_count() == 32

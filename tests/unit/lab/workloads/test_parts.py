"""Jobs of part of a node and of GPUs, among the built-in ones."""

from dataclasses import replace

import pytest

from coplace_client.errors import UnusableError
from lab.emulator.shapes import units_that_fit
from lab.workloads.clusters import clusters
from lab.workloads.generate import built_in
from lab.workloads.parts import MOST_QUARTERS, THOUSANDTHS, with_parts

CLUSTERS = clusters(gpu_nodes=64)
JOBS = built_in(7, 2_000, CLUSTERS)


def test_the_shares_are_those_that_were_asked_for_and_the_others_stay() -> None:
    assert with_parts(JOBS, CLUSTERS, 7, 0.0, 0.0) == JOBS == built_in(7, 2_000, clusters())
    mixed = with_parts(JOBS, CLUSTERS, 7, 0.2, 0.1)
    assert with_parts(JOBS[:100], CLUSTERS, 7, 0.2, 0.1) == mixed[:100], "of a longer workload too"
    quarters = [r for r in mixed if r.cores_per_unit and not r.resources_per_unit]
    gpus = [r for r in mixed if r.resources_per_unit]
    assert len(quarters) / len(JOBS) == pytest.approx(0.2, abs=0.03)
    assert len(gpus) / len(JOBS) == pytest.approx(0.1, abs=0.03)
    for before, after in zip(JOBS, mixed, strict=True):
        assert before == after or after.cores_per_unit
        assert replace(before, submit_s=after.submit_s).repetitions == after.repetitions


def test_a_quarter_is_one_of_its_reference_clusters_nodes_and_shares_it() -> None:
    cores = {"p1": 12, "p2": 9}
    for request in with_parts(JOBS, CLUSTERS, 7, 1.0, 0.0):
        assert request.cores_per_unit == cores[request.reference_cluster]
        assert (request.shareable, request.units_per_node) == (True, 1)
        assert 1 <= request.nodes <= MOST_QUARTERS


def test_units_of_thousandths_are_no_whole_cores_and_round_up_to_those_beside_them() -> None:
    mixed = with_parts(JOBS, CLUSTERS, 7, 0.2, 0.1, 0.3)
    assert [r for r in mixed if r.units_per_node or r.resources_per_unit] == [
        r for r in with_parts(JOBS, CLUSTERS, 7, 0.2, 0.1) if r.cores_per_unit
    ], "the other shares stay"
    fine = [request for request in mixed if request.millicores_per_unit]
    assert len(fine) / len(JOBS) == pytest.approx(0.3, abs=0.03)
    assert {request.unit_millicores for request in fine} == set(THOUSANDTHS)
    for request in fine:
        assert request.cores_per_unit == -(-request.millicores_per_unit // 1000)


def test_jobs_with_gpus_fit_where_there_are_some_and_refer_to_it() -> None:
    for request in with_parts(JOBS, CLUSTERS, 7, 0.0, 1.0):
        assert request.reference_cluster == "p1"
        fit = [units_that_fit(request, cluster) for cluster in CLUSTERS]
        assert fit == [128, 0]
        assert request.nodes <= 128
    with pytest.raises(UnusableError, match="declare a class"):
        with_parts(JOBS, clusters(), 7, 0.0, 0.1)

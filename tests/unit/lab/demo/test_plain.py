"""Plain EASY on the emulated clusters: the same jobs, alone on their nodes at the nominal clock."""

from collections import defaultdict

import pytest
from coplace.v1.jobs_pb2 import JobFinished

from lab.demo.plain import Offer, PlainEasy
from lab.emulator.app import workload
from lab.emulator.facts import id_of
from lab.emulator.settings import SimulationSettings

SETTINGS = SimulationSettings(seed=3, jobs=120)
REQUESTS, CLUSTERS = workload(SETTINGS)


@pytest.fixture(scope="module", params=Offer)
def offer(request: pytest.FixtureRequest) -> Offer:
    """Where jobs may start."""
    found: Offer = request.param
    return found


@pytest.fixture(scope="module")
def finished(offer: Offer) -> list[JobFinished]:
    """What became of the jobs."""
    return PlainEasy(SETTINGS, offer).play()


def test_every_job_ends_once_at_the_nominal_clock(finished: list[JobFinished]) -> None:
    nominal = {cluster.name: max(cluster.pstates_ghz) for cluster in CLUSTERS}
    own = CLUSTERS[0].site
    assert sorted(job.job_id for job in finished) == sorted(id_of(r, own) for r in REQUESTS)
    assert all(job.freq_ghz == nominal[job.cluster] for job in finished)
    assert all(job.submitted_at_us <= job.started_at_us < job.ended_at_us for job in finished)
    assert all(job.energy_j > 0 for job in finished)


def test_jobs_start_where_they_are_offered(finished: list[JobFinished], offer: Offer) -> None:
    own = {id_of(r, CLUSTERS[0].site): r.reference_cluster for r in REQUESTS}
    elsewhere = sum(job.cluster != own[job.job_id] for job in finished)
    assert (elsewhere > 0) is (offer is Offer.FIRST_FREE)


def test_no_cluster_has_more_jobs_than_nodes(finished: list[JobFinished]) -> None:
    changes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for job in finished:
        changes[job.cluster] += [(job.started_at_us, job.nodes), (job.ended_at_us, -job.nodes)]
    for cluster in CLUSTERS:
        used = 0
        for _, nodes in sorted(changes[cluster.name]):
            used += nodes
            assert used <= cluster.nodes


def test_jobs_that_need_gpus_run_where_there_are_some(finished: list[JobFinished]) -> None:
    with_gpus = [job for job in finished if "gpu" in job.resources]
    assert with_gpus
    assert {job.cluster for job in with_gpus} == {CLUSTERS[0].name}

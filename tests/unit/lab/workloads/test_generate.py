import math
from dataclasses import astuple, replace

import numpy as np
import pytest

from coplace_client.errors import RejectedError
from lab.workloads import lublin
from lab.workloads.generate import built_in
from lab.workloads.request import JobRequest
from lab.workloads.streams import Stream, stream
from lab.workloads.table1 import APPS, NODE_MODELS, profile
from lab.workloads.walltimes import USUAL_WALLTIMES_S
from shared.domain.cluster import Cluster

JOBS = 5_000


def cluster(node_model: str, nodes: int = 512) -> Cluster:
    model = NODE_MODELS[node_model]
    size = nodes, model.cores, model.pstates_ghz
    return Cluster(model.partition, "bench", model.name, *size, 100, 200)


CLUSTERS = (cluster("platinum-8168"), cluster("gold-6254"))
MODEL_OF = {c.name: c.node_model for c in CLUSTERS}


@pytest.fixture(scope="module")
def requests() -> list[JobRequest]:
    return built_in(11, JOBS, CLUSTERS)


def runtime_s(request: JobRequest) -> float:
    once_s = profile(request.app_id, MODEL_OF[request.reference_cluster]).time_s
    return request.repetitions * once_s


def offered_load(requests: list[JobRequest], nodes: int) -> float:
    work_node_s = math.fsum(request.nodes * runtime_s(request) for request in requests)
    return work_node_s / (nodes * requests[-1].submit_s)


def assert_share(count: int, expected: float, draws: int = JOBS) -> None:
    """Within five standard deviations of a binomial: exceeded once in 1.7 million runs."""
    bound = 5 * math.sqrt(expected * (1 - expected) / draws)
    assert abs(count / draws - expected) < bound


@pytest.mark.parametrize(("jobs", "load"), [(1, 0.9), (250, 0.9), (1000, 0.4), (1000, 1.3)])
def test_arrivals_offer_the_load_that_was_asked_for_or_nine_tenths(jobs: int, load: float) -> None:
    usual = {} if load == 0.9 else {"offered_load": load}
    requests = built_in(3, jobs, CLUSTERS, **usual)
    assert offered_load(requests, 1024) == pytest.approx(load, rel=1e-9)


def test_the_same_seed_gives_the_same_jobs_and_another_seed_others() -> None:
    assert built_in(5, 300, CLUSTERS) == built_in(5, 300, CLUSTERS)
    assert built_in(5, 300, CLUSTERS) != built_in(6, 300, CLUSTERS)


def test_a_longer_workload_begins_with_the_same_jobs_but_for_one_factor_on_their_arrivals() -> None:
    short, long = built_in(5, 100, CLUSTERS), built_in(5, 400, CLUSTERS)[:100]
    factor = long[0].submit_s / short[0].submit_s
    for one, other in zip(short, long, strict=True):
        assert replace(one, submit_s=0) == replace(other, submit_s=0)
        assert other.submit_s == pytest.approx(one.submit_s * factor, rel=1e-12)


def test_a_job_repeats_its_application_the_whole_number_of_times_nearest_to_its_runtime(
    requests: list[JobRequest],
) -> None:
    nodes = np.array([request.nodes for request in requests])
    wanted_s = lublin.runtimes_s(stream(11, Stream.RUNTIME), nodes)
    for request, wanted in zip(requests, wanted_s, strict=True):
        once_s = runtime_s(request) / request.repetitions
        assert request.repetitions == int(request.repetitions) >= 1
        assert request.repetitions == 1 or abs(runtime_s(request) - wanted) <= once_s / 2 + 1e-6


def test_jobs_come_in_order_and_the_eight_applications_are_drawn_alike(
    requests: list[JobRequest],
) -> None:
    assert [request.index for request in requests] == list(range(JOBS))
    submits_s = [request.submit_s for request in requests]
    assert submits_s == sorted(submits_s)
    for app_id in APPS:
        assert_share(sum(request.app_id == app_id for request in requests), 1 / 8)


def test_three_jobs_in_ten_may_share_whatever_their_size_and_application(
    requests: list[JobRequest],
) -> None:
    serial = [request for request in requests if request.nodes == 1]
    stream_jobs = [request for request in requests if request.app_id == "STREAM"]
    for group in (requests, serial, stream_jobs):
        assert_share(sum(request.shareable for request in group), 0.3, len(group))


def test_a_job_fits_on_its_reference_cluster_which_is_drawn_by_its_nodes() -> None:
    clusters = (cluster("platinum-8168", 300), cluster("gold-6254", 30))
    sizes: dict[str, list[int]] = {"p1": [], "p2": []}
    for request in built_in(2, JOBS, clusters):
        sizes[request.reference_cluster].append(request.nodes)
    assert 256 <= max(sizes["p1"]) <= 300
    assert 16 < max(sizes["p2"]) <= 30
    assert_share(len(sizes["p1"]), 10 / 11)


def test_users_ask_for_a_usual_time_that_is_a_fifth_too_long_at_least(
    requests: list[JobRequest],
) -> None:
    for request in requests:
        assert request.walltime_s in USUAL_WALLTIMES_S
        assert request.walltime_s >= 1.2 * runtime_s(request)
        shorter = [usual_s for usual_s in USUAL_WALLTIMES_S if usual_s < request.walltime_s]
        assert not shorter or shorter[-1] < 3 * runtime_s(request)
    longest_once_s = max(p.time_s for app in APPS.values() for p in app.on.values())
    assert USUAL_WALLTIMES_S[-1] >= 3 * (math.exp(lublin.MAX_LN_RUNTIME) + longest_once_s)


def test_a_user_has_one_account_and_few_users_submit_most(requests: list[JobRequest]) -> None:
    account_of = {request.user: request.account for request in requests}
    assert all(account_of[request.user] == request.account for request in requests)
    assert (len(account_of), len(set(account_of.values()))) == (40, 8)
    weights = 1 / np.arange(1, 41)
    first = sum(request.user == "user00" for request in requests)
    assert_share(first, float(weights[0] / weights.sum()))


def test_a_workload_without_jobs_load_or_clusters_is_refused() -> None:
    unknown = [replace(CLUSTERS[0], node_model="gold-6148")]
    for jobs, clusters, load, problem in (
        (0, CLUSTERS, 0.9, "jobs: must be at least 1, got"),
        (10, CLUSTERS, 0, "offered_load: must be above 0, got"),
        (10, (), 0.9, "at least one cluster"),
        (10, unknown, 0.9, "node_model"),
    ):
        with pytest.raises(ValueError, match=problem):
            built_in(1, jobs, clusters, load)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("app_id", "nothing"),
        ("user", ""),
        ("nodes", 0),
        ("repetitions", 0),
        ("walltime_s", math.inf),
        ("submit_s", -1),
        ("index", -1),
    ],
)
def test_a_request_that_makes_no_sense_names_its_field(
    requests: list[JobRequest], field: str, value: object
) -> None:
    fields = dict(zip(JobRequest.__slots__, astuple(requests[0]), strict=True))
    with pytest.raises(RejectedError, match=f"^{field}: "):
        JobRequest(**{**fields, field: value})

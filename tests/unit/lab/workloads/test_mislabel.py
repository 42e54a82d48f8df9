"""Jobs under the name of another application."""

from lab.workloads.clusters import clusters
from lab.workloads.generate import built_in
from lab.workloads.mislabel import mislabel

REQUESTS = built_in(3, 400, clusters())


def test_a_share_of_the_jobs_is_named_otherwise_and_is_what_it_was() -> None:
    assert mislabel(REQUESTS, 3, 0.0) == REQUESTS
    found = mislabel(REQUESTS, 3, 0.2)
    wrong = [request for request in found if request.runs]
    assert 50 <= len(wrong) <= 110
    assert all(request.app_id != request.runs for request in wrong)
    assert [request.true_app_id for request in found] == [request.app_id for request in REQUESTS]


def test_a_larger_share_mislabels_the_same_jobs_and_more() -> None:
    few = {request.index for request in mislabel(REQUESTS, 3, 0.1) if request.runs}
    many = {request.index for request in mislabel(REQUESTS, 3, 0.3) if request.runs}

    assert few < many

import numpy as np
import pytest

from lab.workloads.rigid import RigidJobs, lublin_jobs

SUBMIT_S = np.array([0.0, 10.0])
NODES = np.array([1, 2])
TIMES_S = np.array([5.0, 6.0])


@pytest.mark.parametrize("name", ["nodes", "run_s", "requested_s"])
def test_jobs_of_nothing_are_refused_by_the_name_of_their_column(name: str) -> None:
    columns = {"nodes": NODES, "run_s": TIMES_S, "requested_s": TIMES_S, name: np.zeros(2)}
    with pytest.raises(ValueError, match=f"{name} must be above 0"):
        RigidJobs(submit_s=SUBMIT_S, **columns)
    with pytest.raises(ValueError, match="submit_s must ascend"):
        RigidJobs(SUBMIT_S[::-1], NODES, TIMES_S, TIMES_S)


def test_the_arrivals_of_the_lublin_feitelson_model_offer_the_load_that_was_asked_for() -> None:
    jobs = lublin_jobs(1, 500, machine_nodes=64, total_nodes=128, offered_load=0.7)
    assert jobs.nodes @ jobs.run_s / (128 * jobs.submit_s[-1]) == pytest.approx(0.7)
    assert jobs.nodes.max() <= 64
    assert (jobs.requested_s >= jobs.run_s).all()
    first, again, other = (lublin_jobs(seed, 50, 64, 64) for seed in (1, 1, 2))
    assert np.array_equal(first.run_s, again.run_s)
    assert not np.array_equal(first.run_s, other.run_s)

from pathlib import Path

import numpy as np
import pytest

from lab.simulation.jobs import WorkloadSpec, draw_apps, submit_jobs
from lab.simulation.system import SizeUnit, System
from tests.unit.lab.simulation.setups import cluster
from tests.unit.lab.workloads.swf_records import record, text_of

SYSTEM = System((cluster("p1", 64, cores_per_node=4), cluster("p2", 16, cores_per_node=4)))
BEST = np.array([0, 0, 0, 1])


@pytest.mark.parametrize("source", ["cirne", "lublin"])
def test_a_model_makes_jobs_that_fit_on_the_largest_cluster(source: str) -> None:
    made = submit_jobs(WorkloadSpec(source, jobs=300), 1, SYSTEM)
    assert made.job_id.tolist() == list(range(1, 301))
    assert 1 <= made.jobs.nodes.min() <= made.jobs.nodes.max() <= 64


def test_a_log_keeps_its_numbers_and_loses_what_no_cluster_holds(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(text_of(*(record(i, requested_procs=size) for i, size in ((7, 64), (8, 65)))))
    assert submit_jobs(WorkloadSpec(str(path)), 1, SYSTEM).job_id.tolist() == [7]
    cores = submit_jobs(WorkloadSpec(str(path), counts=SizeUnit.CORE), 1, SYSTEM)
    assert cores.job_id.tolist() == [7, 8]
    assert cores.counts is SizeUnit.CORE
    path.write_text(text_of(*(record(i) for i in range(5))))
    assert len(submit_jobs(WorkloadSpec(str(path), jobs=3), 1, SYSTEM).jobs) == 3


def test_jobs_arrive_as_much_faster_as_is_said() -> None:
    usual, fast = (submit_jobs(WorkloadSpec(jobs=50, speed=s), 1, SYSTEM).jobs for s in (1, 2))
    assert fast.submit_s == pytest.approx(usual.submit_s / 2)
    assert np.array_equal(fast.run_s, usual.run_s)
    assert WorkloadSpec(speed=2).label == "cirne x2 uniform"


def test_all_applications_are_drawn_alike_unless_a_share_is_said() -> None:
    uniform = draw_apps(BEST, WorkloadSpec(), 1, 20_000)
    assert np.bincount(uniform) / 20_000 == pytest.approx([0.25] * 4, abs=0.02)
    half = draw_apps(BEST, WorkloadSpec(share=0.5), 1, 20_000)
    assert np.bincount(half) / 20_000 == pytest.approx([1 / 6] * 3 + [0.5], abs=0.02)
    with pytest.raises(ValueError, match="draw them uniformly"):
        draw_apps(np.zeros(4, dtype=np.int64), WorkloadSpec(share=0.5), 1, 10)


@pytest.mark.parametrize(
    ("name", "value", "bound"),
    [
        *(("speed", value, "above 0") for value in (0, -1, float("inf"), float("nan"))),
        *(("share", value, "from 0 to 1") for value in (-0.1, 1.1, float("nan"))),
    ],
)
def test_what_is_no_speed_or_share_is_refused(name: str, value: float, bound: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be {bound}"):
        WorkloadSpec(**{name: value})  # type: ignore[arg-type]

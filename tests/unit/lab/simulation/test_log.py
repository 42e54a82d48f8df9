import gzip
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coplace_client.errors import UnusableError
from lab.simulation.log import read_log
from lab.workloads.swf import Skip
from tests.unit.lab.workloads.swf_records import record, text_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.swf"


def test_a_job_takes_what_it_asked_for_or_else_what_it_got(path: Path) -> None:
    asked = record(1, requested_procs=8, allocated_procs=16, requested_s=3600)
    given = record(2, requested_procs=-1, allocated_procs=16)
    path.write_text(text_of(asked, given))
    jobs = read_log(path, proc_w=2.0)
    assert jobs.workload.units.tolist() == [[8], [16]]
    assert jobs.workload.limit_s.tolist() == [[3600], [600]]
    assert jobs.workload.run_s.tolist() == [[600], [600]]
    assert jobs.workload.power_w.tolist() == [[16], [32]]


def test_a_job_that_outran_its_request_is_killed_then_or_runs_on(path: Path) -> None:
    path.write_text(text_of(record(requested_s=500)))
    assert read_log(path).workload.run_s.tolist() == [[500]]
    assert read_log(path, kill_at_limit=False).workload.run_s.tolist() == [[600]]
    assert read_log(path, kill_at_limit=False).workload.limit_s.tolist() == [[500]]


def test_a_job_that_alone_would_break_the_cap_is_too_large_for_the_machine(path: Path) -> None:
    path.write_text(text_of(record(1, requested_procs=5), record(2, requested_procs=6)))
    jobs = read_log(path, proc_w=100.0, cap_w=500.0)
    assert jobs.job_id.tolist() == [1]
    assert jobs.left_out == {Skip.ABOVE_CAP: 1}
    assert len(read_log(path, proc_w=100.0, cap_w=6400.0).job_id) == 2


def test_a_job_may_draw_what_a_cap_leaves_beyond_what_idles(path: Path) -> None:
    """64 processors idle at 10 W each; the cap leaves 450 W for five at 90 W beyond that."""
    path.write_text(text_of(record(1, requested_procs=5), record(2, requested_procs=6)))
    known: dict[str, Any] = {"proc_w": 100.0, "idle_w": 10.0}
    assert read_log(path, cap_w=640.0 + 450.0, **known).job_id.tolist() == [1]
    dynamic = read_log(path, cap_w=540.0, cap_counts_idle=False, **known)
    assert dynamic.job_id.tolist() == [1, 2]
    with pytest.raises(UnusableError, match=r"the cap of the pool, 640 W, .* 640 W"):
        read_log(path, cap_w=640.0, **known)


@pytest.mark.parametrize(
    ("header", "asked", "procs"),
    [
        ("; MaxNodes: 32\n; MaxProcs: 64\n", None, 64),
        ("; MaxNodes: 32\n; MaxProcs: 64\n", 8, 8),
        ("; MaxNodes: 32\n", None, 32),
    ],
)
def test_the_size_is_what_the_caller_says_before_what_the_log_says(
    path: Path, header: str, asked: int | None, procs: int
) -> None:
    path.write_text(text_of(record(), header=header))
    assert read_log(path, asked).procs == procs


@pytest.mark.parametrize(
    ("text", "cap_w", "problem"),
    [
        (text_of(record(), header=""), inf, "neither MaxProcs nor MaxNodes"),
        ("; MaxProcs: 4\nhello\n", inf, r"log\.swf holds no job that can run"),
        (text_of(record()), 300.0, r"1 for more power than the cap, alone\): raise the cap"),
    ],
    ids=["of no size", "without a job", "above the cap"],
)
def test_a_log_of_which_nothing_can_run_is_refused_with_why(
    path: Path, text: str, cap_w: float, problem: str
) -> None:
    path.write_text(text)
    with pytest.raises(ValueError, match=problem):
        read_log(path, proc_w=100.0, cap_w=cap_w)


def test_everything_that_can_be_wrong_with_a_log_is_counted_and_the_rest_kept(path: Path) -> None:
    lines = text_of(
        record(1, submit_s=-1),
        record(2, run_s=0),
        record(3, run_s=-1),
        record(4, requested_procs=-1),
        record(5, requested_procs=65),
        record(6, requested_s=-1),
        record(7, submit_s=600),
    )
    broken = "1 2 3\n" + lines.splitlines()[1].replace("600", "soon") + "\n"
    whole = gzip.compress((lines + broken + text_of(*[record(9)] * 5000, header="")).encode())
    path.write_bytes(whole[:-9])
    jobs = read_log(path)
    assert jobs.left_out == {
        Skip.NO_SUBMIT_TIME: 1,
        Skip.NO_RUN_TIME: 2,
        Skip.NO_PROCESSORS: 1,
        Skip.LARGER_THAN_MACHINE: 1,
        Skip.FIELD_COUNT: 1,
        Skip.NOT_A_NUMBER: 1,
        Skip.TRUNCATED: 1,
    }
    assert jobs.job_id[:2].tolist() == [6, 7]
    assert set(jobs.job_id[2:].tolist()) == {9}


def test_time_going_backwards_is_counted_and_sorted(path: Path) -> None:
    path.write_text(text_of(*(record(i, submit_s=s) for i, s in enumerate((50, 20, 20, 60, 10)))))
    jobs = read_log(path)
    assert jobs.out_of_order == 3
    assert jobs.workload.submit_s.tolist() == [10, 20, 20, 50, 60]
    assert jobs.job_id.tolist() == [4, 1, 2, 0, 3]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=50))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_jobs_of_one_instant_stay_in_the_order_of_the_file(path: Path, submits: list[int]) -> None:
    path.write_text(text_of(*(record(i, submit_s=s) for i, s in enumerate(submits))))
    jobs = read_log(path)
    assert jobs.job_id.tolist() == sorted(range(len(submits)), key=lambda i: submits[i])
    assert (np.diff(jobs.workload.order[:, 0]) > 0).all()


@pytest.mark.parametrize(
    ("name", "procs", "jobs", "left_out"),
    # By zcat and awk from the logs.
    [
        ("KTH-SP2.swf.gz", 100, 28_481, {Skip.NO_RUN_TIME: 8}),
        ("CTC-SP2-1996-3.1-cln.swf.gz", 338, 77_205, {Skip.NO_RUN_TIME: 17}),
    ],
)
def test_the_archives_logs_are_read_whole(
    data_dir: Path, name: str, procs: int, jobs: int, left_out: dict[Skip, int]
) -> None:
    log = read_log(data_dir / "swf" / name)
    assert log.procs == procs
    assert len(log.workload) == jobs
    assert log.left_out == left_out

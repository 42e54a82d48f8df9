from pathlib import Path

import pytest

from coplace_client.errors import RejectedError
from lab.workloads.replay import SwfWorkload, app_of, replay
from lab.workloads.swf import Skip, SwfRecord
from lab.workloads.table1 import APPS, GOLD_6254, profile
from shared.domain.job import Condition
from tests.unit.lab.workloads.swf_records import record, text_of


def log_of(path: Path, *records: SwfRecord, header: str = "") -> Path:
    path.write_text(text_of(*records, header=header))
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.swf"


@pytest.fixture(scope="module")
def kth(data_dir: Path) -> SwfWorkload:
    return replay(data_dir / "swf" / "KTH-SP2.swf.gz")


def test_the_kth_log_is_replayed_whole_or_its_first_jobs_alone(
    kth: SwfWorkload, data_dir: Path
) -> None:
    few = replay(data_dir / "swf" / "KTH-SP2.swf.gz", jobs=300)
    assert (few.requests, few.max_nodes) == (kth.requests[:300], 100)
    # The figures come from the log by zcat and awk: 28489 lines, 8 with a run time of 0.
    assert kth.max_nodes == 100
    assert kth.skipped == {Skip.NO_RUN_TIME: 8}
    assert len(kth.requests) == 28_481
    assert max(request.nodes for request in kth.requests) == 100
    assert len({request.user for request in kth.requests}) == 214
    assert (kth.requests[0].submit_s, kth.requests[-1].submit_s) == (0, 29_363_618)
    assert sum(request.walltime_s for request in kth.requests) == 389_572_200
    work_node_s = sum(
        request.nodes * request.repetitions * profile(request.app_id, "platinum-8168").time_s
        for request in kth.requests
    )
    assert work_node_s == pytest.approx(2_019_298_503, rel=1e-9)
    assert {request.app_id for request in kth.requests} == set(APPS)


def test_what_was_asked_for_counts_before_what_was_given(log: Path) -> None:
    asked = record(1, requested_procs=8, allocated_procs=16, requested_s=3600, group_id=2)
    given = record(2, requested_procs=-1, allocated_procs=16, user_id=-1)
    first, second = replay(log_of(log, asked, given)).requests
    assert (first.nodes, first.walltime_s) == (8, 3600)
    assert (first.user, first.account) == ("user7", "group2")
    assert (second.nodes, second.walltime_s) == (16, 600)
    assert (second.user, second.account) == ("user-unknown", "group-unknown")
    [request] = replay(log_of(log, record()), reference_cluster="n", node_model=GOLD_6254).requests
    assert request.reference_cluster == "n"
    once_s = profile(request.app_id, "gold-6254").time_s
    assert request.repetitions * once_s == pytest.approx(600, rel=1e-12)


def test_a_job_begins_its_think_time_after_the_job_before_it_that_is_replayed_too(
    log: Path,
) -> None:
    records = [
        record(1),
        record(2, preceding_job=1, think_s=60),
        record(3, preceding_job=2, think_s=-1),
        record(4, preceding_job=99, think_s=60),
        record(5, preceding_job=6, think_s=60),
        record(6, preceding_job=1, think_s=1e12),
    ]
    found = [request.depends_on for request in replay(log_of(log, *records)).requests]
    year_s = 31_622_400.0
    assert found == [
        (),
        ((0, Condition.AFTER_ANY, 60.0),),
        ((1, Condition.AFTER_ANY, 0.0),),
        (),
        (),
        ((0, Condition.AFTER_ANY, year_s),),
    ]


def test_a_log_out_of_order_is_replayed_from_zero_on_a_machine_of_its_largest_job(
    log: Path,
) -> None:
    late, early = record(1, submit_s=900), record(2, submit_s=400, requested_procs=23)
    workload = replay(log_of(log, late, early))
    assert [(r.index, r.submit_s) for r in workload.requests] == [(0, 0), (1, 500)]
    assert workload.max_nodes == 23
    header = "; MaxProcs: 64\n"
    sized = replay(log_of(log, record(1), record(2, requested_procs=65), header=header))
    assert (sized.max_nodes, sized.skipped) == (64, {Skip.LARGER_THAN_MACHINE: 1})


def test_one_user_or_one_executable_is_one_application() -> None:
    assert app_of(record(1, user_id=5)) == app_of(record(2, user_id=5, run_s=1))
    assert app_of(record(1, user_id=5, executable=9)) == app_of(record(2, user_id=6, executable=9))
    assert {app_of(record(user_id=user)) for user in range(100)} == set(APPS)
    # Between releases, too: by `printf 'user 5' | sha256sum` and `printf 'executable 9' |
    # sha256sum`, the last hex digit modulo 8.
    assert app_of(record(user_id=5)) == tuple(APPS)[7]
    assert app_of(record(executable=9)) == tuple(APPS)[1]


def test_a_seed_decides_which_jobs_may_share(log: Path) -> None:
    log_of(log, *(record(job) for job in range(1, 201)))
    shares = [[r.shareable for r in replay(log, seed=seed).requests] for seed in (1, 1, 2)]
    assert shares[0] == shares[1] != shares[2]
    assert 0 < sum(shares[0]) < 200


def test_a_file_without_a_job_and_a_replay_of_none_are_refused(log: Path) -> None:
    log.write_text("; nothing here\nhello\n")
    with pytest.raises(ValueError, match=r"log\.swf holds no job to replay.*18 fields.*SWF log"):
        replay(log)
    with pytest.raises(RejectedError, match="jobs: must be at least 1, got 0"):
        replay(log_of(log, record()), jobs=0)

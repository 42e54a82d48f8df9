from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.simulation.log import LoggedJobs, read_log
from lab.simulation.one_pool import PoolMachine, play_log
from lab.simulation.policy import ONE_POOL, SimulatedPolicy
from lab.simulation.units import assign_units
from tests.unit.lab.workloads.swf_records import record, text_of
from tests.unit.shared.scheduling.plain_one_pool import PlainJob

PROCS = 8

jobs = st.lists(
    st.builds(
        PlainJob,
        submit_s=st.integers(0, 20),
        units=st.integers(1, PROCS),
        limit_s=st.integers(1, 12),
        run_s=st.integers(1, 12),
    ),
    min_size=1,
    max_size=20,
).map(sorted)


def logged(path: Path, several: list[PlainJob]) -> LoggedJobs:
    records = (
        record(i, submit_s=s, requested_procs=p, requested_s=limit, run_s=run)
        for i, (s, p, limit, run) in enumerate(several)
    )
    path.write_text(text_of(*records))
    return read_log(path, PROCS)


@given(jobs, st.sampled_from(ONE_POOL))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_policy_gives_a_processor_out_twice(
    tmp_path: Path, several: list[PlainJob], policy: SimulatedPolicy
) -> None:
    played = play_log(logged(tmp_path / "log.swf", several), PoolMachine(PROCS), policy)
    schedule = played.schedule
    assert (schedule.start_s >= played.workload.submit_s).all()
    assign_units(PROCS, played.used_units, schedule.start_s, schedule.end_s)


def test_the_shortest_job_goes_first_when_all_wait(tmp_path: Path) -> None:
    waiting = [PlainJob(1, 8, limit, limit) for limit in (5, 3, 4)]
    log = logged(tmp_path / "log.swf", [PlainJob(0, 8, 10, 10), *waiting])
    played = play_log(log, PoolMachine(PROCS), SimulatedPolicy.SJF)
    assert played.schedule.start_s.tolist() == [0, 17, 10, 13]


def test_a_short_job_passes_a_wide_one_only_where_the_policy_backfills(tmp_path: Path) -> None:
    jobs = [PlainJob(0, 6, 10, 10), PlainJob(1, 8, 5, 5), PlainJob(2, 2, 3, 3)]
    log = logged(tmp_path / "log.swf", jobs)
    for policy, third_s in ((SimulatedPolicy.EASY, 2), (SimulatedPolicy.FCFS, 15)):
        played = play_log(log, PoolMachine(PROCS), policy)
        assert played.schedule.start_s.tolist() == [0, 10, third_s]


def test_a_cap_keeps_jobs_waiting_that_would_fit(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(text_of(*(record(i, submit_s=0, requested_procs=4, run_s=5) for i in (1, 2))))
    capped = play_log(
        read_log(path, PROCS, proc_w=100.0), PoolMachine(PROCS, cap_w=500.0), SimulatedPolicy.EASY
    )
    assert capped.schedule.start_s.tolist() == [0, 5]
    assert capped.energy_j.tolist() == [2000, 2000]


def test_a_policy_that_needs_applications_is_refused(tmp_path: Path) -> None:
    log = logged(tmp_path / "log.swf", [PlainJob(0, 1, 1, 1)])
    with pytest.raises(ValueError, match="reorder needs applications, and a log names none"):
        play_log(log, PoolMachine(PROCS), SimulatedPolicy.REORDER)

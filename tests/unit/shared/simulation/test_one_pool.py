from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.simulation.log import LoggedJobs, read_log
from shared.simulation.one_pool import PoolMachine, play_log
from shared.simulation.policy import ONE_POOL, SimulatedPolicy
from shared.simulation.units import assign_units
from tests.unit.shared.simulation.naive_easy import Job, starts
from tests.unit.shared.simulation.test_log import record, text_of

PROCS = 8

jobs = st.lists(
    st.builds(
        Job,
        submit=st.integers(0, 20),
        procs=st.integers(1, PROCS),
        limit=st.integers(1, 12),
        run=st.integers(1, 12),
    ),
    min_size=1,
    max_size=20,
).map(sorted)


def logged(path: Path, several: list[Job], *, kill: bool = True) -> LoggedJobs:
    path.write_text(
        text_of(
            *(
                record(i, submit_s=s, requested_procs=p, requested_s=limit, run_s=run)
                for i, (s, p, limit, run) in enumerate(several)
            )
        )
    )
    return read_log(path, PROCS, kill_at_limit=kill)


@given(jobs, st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_easy_starts_each_job_when_its_rules_say(
    tmp_path: Path, several: list[Job], kill: bool
) -> None:
    log = logged(tmp_path / "log.swf", several, kill=kill)
    played = play_log(log, PoolMachine(PROCS), SimulatedPolicy.EASY)
    run = [job._replace(run=min(job.run, job.limit)) if kill else job for job in several]
    assert played.schedule.start_s.tolist() == starts(run, PROCS)


@given(jobs, st.sampled_from(ONE_POOL))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_policy_gives_a_processor_out_twice(
    tmp_path: Path, several: list[Job], policy: SimulatedPolicy
) -> None:
    played = play_log(logged(tmp_path / "log.swf", several), PoolMachine(PROCS), policy)
    schedule = played.schedule
    assert (schedule.start_s >= played.workload.submit_s).all()
    assign_units(PROCS, played.used_units, schedule.start_s, schedule.end_s)


def test_the_shortest_job_goes_first_when_all_wait(tmp_path: Path) -> None:
    waiting = [Job(1, 8, limit, limit) for limit in (5, 3, 4)]
    log = logged(tmp_path / "log.swf", [Job(0, 8, 10, 10), *waiting])
    played = play_log(log, PoolMachine(PROCS), SimulatedPolicy.SJF)
    assert played.schedule.start_s.tolist() == [0, 17, 10, 13]


def test_a_cap_keeps_jobs_waiting_that_would_fit(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(text_of(*(record(i, submit_s=0, requested_procs=4, run_s=5) for i in (1, 2))))
    capped = play_log(
        read_log(path, PROCS, proc_w=100.0), PoolMachine(PROCS, cap_w=500.0), SimulatedPolicy.EASY
    )
    assert capped.schedule.start_s.tolist() == [0, 5]
    assert capped.energy_j.tolist() == [2000, 2000]


def test_a_policy_that_needs_applications_is_refused(tmp_path: Path) -> None:
    log = logged(tmp_path / "log.swf", [Job(0, 1, 1, 1)])
    with pytest.raises(ValueError, match="reorder needs applications, and a log names none"):
        play_log(log, PoolMachine(PROCS), SimulatedPolicy.REORDER)

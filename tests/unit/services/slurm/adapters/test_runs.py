"""A requeue that nobody watched ends the run that placement knows."""

from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_DECIDED,
    JOB_STANDING_RUNNING,
    Allocation,
    ListedJob,
)

from services.slurm.adapters.runs import RunsSeen
from services.slurm.model.facts import facts_of
from services.slurm.model.jobs import SlurmJob
from tests.unit.services.slurm.fields import JOB, RUNS, SUBMIT_S
from tests.unit.services.slurm.region import SITE, TERMS

REQUEUED = SlurmJob({**JOB, "submit_time": SUBMIT_S + 62, "tres_req_str": "cpu=2,node=1"})

_ENDED = {"job_state": "REQUEUED", "end_time": SUBMIT_S + 62}


def listed(standing: int, submit_s: int = SUBMIT_S) -> ListedJob:
    allocation = Allocation(nodes=2, since_us=(SUBMIT_S + 2) * 1_000_000, grant=3, freq_ghz=2.1)
    return ListedJob(
        job_id=f"north/alpha/17/{submit_s}",
        user="grace",
        account="physics",
        app_id="hpcg",
        standing=standing,  # type: ignore[arg-type]
        allocation=allocation,
    )


def test_a_run_that_was_requeued_while_nobody_looked_is_ended_as_placement_knows_it() -> None:
    runs = RunsSeen(SITE, lambda: [listed(JOB_STANDING_RUNNING)])
    [ended] = runs.ended([SlurmJob({}), REQUEUED])
    finished = facts_of(ended, TERMS).told[1].job_finished
    assert (finished.job_id, finished.grant) == (f"north/alpha/17/{SUBMIT_S}", 3)
    assert (finished.user, finished.account, finished.app_id) == ("grace", "physics", "hpcg")
    assert (finished.nodes, finished.started_at_us) == (2, (SUBMIT_S + 2) * 1_000_000)
    assert finished.ended_at_us == (SUBMIT_S + 62) * 1_000_000
    assert [each.job_id for each in runs.ended([REQUEUED])] == [17], "again, until it is published"
    runs.remember([REQUEUED])
    assert runs.ended([REQUEUED]) == []


def test_a_start_that_was_not_seen_before_the_requeue_is_over_too() -> None:
    [ended] = RunsSeen(SITE, lambda: [listed(JOB_STANDING_DECIDED)]).ended([REQUEUED])
    assert facts_of(ended, TERMS).told[1].job_finished.started_at_us == 0


def test_an_end_whose_start_nobody_saw_has_another_id_than_what_accounts_say_of_it() -> None:
    runs, released = RunsSeen(SITE), f"coplace grant=3 started freq_ghz=2.1 submit={SUBMIT_S}"
    waits = SlurmJob({**JOB, "admin_comment": released})
    runs.remember([waits])
    [ended] = runs.ended([REQUEUED])
    unseen = facts_of(ended, TERMS).told[1]
    accounts = {**JOB, **RUNS, **_ENDED, "admin_comment": released}
    known = facts_of(SlurmJob(accounts), TERMS).told[1]
    assert (unseen.job_finished.grant, known.job_finished.grant) == (3, 3)
    assert unseen.job_finished.started_at_us == 0 < known.job_finished.started_at_us
    assert unseen.id != known.id


def test_what_placement_knows_as_slurm_shows_it_goes_on() -> None:
    known = [listed(JOB_STANDING_RUNNING, SUBMIT_S + 62), ListedJob(job_id="north/alpha/5/1")]
    assert RunsSeen(SITE, lambda: known).ended([REQUEUED]) == []


def test_a_task_that_was_requeued_ends_its_own_run_alone() -> None:
    task = SlurmJob({**REQUEUED.fields, "array_job_id": 17, "array_task_id": 2})
    known = [listed(JOB_STANDING_RUNNING) for _ in range(2)]
    for number, each in enumerate(known, 1):
        each.job_id += f"_{number}"
    [ended] = RunsSeen(SITE, lambda: known).ended([task])
    job_id = facts_of(ended, TERMS).told[1].job_finished.job_id
    assert job_id == f"north/alpha/17/{SUBMIT_S}_2"

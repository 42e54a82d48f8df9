"""When a job of Slurm may start is published as Slurm shows it, or holds the job."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER,
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_CORR,
    DEPENDENCY_CONDITION_AFTER_NOT_OK,
    DEPENDENCY_CONDITION_AFTER_OK,
    DEPENDENCY_CONDITION_SINGLETON,
    Dependency,
    JobSubmitted,
)
from coplace.v1.placement_service_pb2 import ListedJob
from structlog.testing import capture_logs

from services.slurm.adapters.publisher import SlurmPublisher
from services.slurm.adapters.runs import RunsSeen
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.start_terms import MARK, ShownJobs
from tests.unit.services.slurm.fields import JOB, RUNS, SUBMIT_S
from tests.unit.services.slurm.region import SITE, TERMS, PlayedRegion


def shown(number: int, **changes: Any) -> SlurmJob:
    return SlurmJob({**JOB, "job_id": number, **changes})


def array(number: int, of: int, task: int, **changes: Any) -> SlurmJob:
    return shown(number, array_job_id=of, array_task_id=task, **changes)


OTHERS = (
    shown(9, **RUNS),
    shown(10),
    array(21, 20, 1, **RUNS),
    array(22, 20, 2, **RUNS),
    shown(30, account="other", name="theirs"),
)


def terms(job: SlurmJob) -> JobSubmitted:
    submitted = JobSubmitted(
        job_id="x",
        attempt=1,
        user="ada",
        account="none",
        nodes=1,
        walltime_s=60.0,
        reference_cluster="alpha",
        submitted_at_us=SUBMIT_S * 1_000_000,
        job_name="my job",
    )
    ShownJobs([*OTHERS, job], SITE).put_terms(job, submitted)
    return submitted


def ident(local: str) -> str:
    array, underscore, task = local.partition("_")
    return f"north/alpha/{array}/{SUBMIT_S}{underscore}{task}"


def test_a_begin_and_a_deadline_are_published_and_the_time_of_submission_is_no_begin() -> None:
    number = {"set": True, "infinite": False, "number": SUBMIT_S + 600}
    found = terms(shown(17, eligible_time=number, deadline=SUBMIT_S + 900))
    assert found.begin_at_us == (SUBMIT_S + 600) * 1_000_000
    assert found.deadline_at_us == (SUBMIT_S + 900) * 1_000_000
    at_once = terms(shown(17, eligible_time=SUBMIT_S, deadline=0))
    assert (at_once.begin_at_us, at_once.deadline_at_us) == (0, 0)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("afterok:9(unfulfilled)", [(ident("9"), DEPENDENCY_CONDITION_AFTER_OK, 0)]),
        ("after:9+5(unfulfilled)", [(ident("9"), DEPENDENCY_CONDITION_AFTER, 300)]),
        ("afternotok:10(failed)", [(ident("10"), DEPENDENCY_CONDITION_AFTER_NOT_OK, 0)]),
        ("afterok:20_2(unfulfilled)", [(ident("20_2"), DEPENDENCY_CONDITION_AFTER_OK, 0)]),
        ("afterok:20_*(unfulfilled)", [(ident("20"), DEPENDENCY_CONDITION_AFTER_OK, 0)]),
        ("afterany:20(unfulfilled)", [(ident("20"), DEPENDENCY_CONDITION_AFTER_ANY, 0)]),
        ("aftercorr:20_*(unfulfilled)", [(ident("20"), DEPENDENCY_CONDITION_AFTER_OK, 0)]),
        ("afterok:21(unfulfilled)", [(ident("20_1"), DEPENDENCY_CONDITION_AFTER_OK, 0)]),
        ("aftercorr:9(unfulfilled)", [(ident("9"), DEPENDENCY_CONDITION_AFTER_OK, 0)]),
        ("singleton(unfulfilled)", [("", DEPENDENCY_CONDITION_SINGLETON, 0)]),
        (
            "after:9:10(unfulfilled)",
            [
                (ident("9"), DEPENDENCY_CONDITION_AFTER, 0),
                (ident("10"), DEPENDENCY_CONDITION_AFTER, 0),
            ],
        ),
    ],
)
def test_dependencies_are_published_as_slurm_shows_them(
    said: str, expected: list[tuple[str, int, float]]
) -> None:
    found = terms(shown(17, dependency=said))
    assert not found.held_because
    assert [(d.job_id, d.condition, d.delay_s) for d in found.depends_on] == expected


def test_a_question_mark_lets_one_of_them_be_enough() -> None:
    of_two = "afterok:9(unfulfilled){}afternotok:10(unfulfilled)"
    both, one = (terms(shown(17, dependency=of_two.format(sign))) for sign in ",?")
    assert len(both.depends_on) == len(one.depends_on) == 2
    assert (both.depends_on_any, one.depends_on_any) == (False, True)


def test_a_task_waits_for_the_task_of_its_number() -> None:
    task = array(42, 40, 2, dependency="aftercorr:20_*(unfulfilled)")
    assert terms(task).depends_on == [
        Dependency(job_id=ident("20_2"), condition=DEPENDENCY_CONDITION_AFTER_OK)
    ]


def test_an_array_waits_task_by_task_for_another_array() -> None:
    waits = shown(40, array_job_id=40, array_task_string="1-4", dependency="aftercorr:20_*")
    assert terms(waits).depends_on == [
        Dependency(job_id=ident("20"), condition=DEPENDENCY_CONDITION_AFTER_CORR)
    ]


@pytest.mark.parametrize(
    "said",
    [
        "afterburstbuffer:9(unfulfilled)",
        "expand:9(unfulfilled)",
        "afterany:20_7(unfulfilled)",
        "afterok:777(unfulfilled)",
        "afterok:30(unfulfilled)",
        "afterok:9(unfulfilled),whatever",
        "afterok:",
        "\x00",
        f"afterok:{'9' * 9_999}",
        "after:9+99999999(unfulfilled)",
        ",".join(["afterok:9"] * 65),
    ],
)
def test_what_is_not_understood_holds_the_job_with_the_reason(said: str) -> None:
    found = terms(shown(17, dependency=said))
    assert found.held_because.startswith(MARK)
    assert not found.depends_on
    assert len(found.held_because) <= 256


def test_a_job_that_is_held_for_its_dependency_keeps_its_begin_and_its_deadline() -> None:
    of = {"eligible_time": SUBMIT_S + 600, "deadline": SUBMIT_S + 900}
    found = terms(shown(17, dependency="afterok:30(unfulfilled)", **of))
    assert found.held_because.startswith(MARK)
    assert found.begin_at_us == (SUBMIT_S + 600) * 1_000_000
    assert found.deadline_at_us == (SUBMIT_S + 900) * 1_000_000


def test_a_singleton_of_a_user_of_two_accounts_is_left_to_slurm() -> None:
    job = shown(17, dependency="singleton(unfulfilled)", name="theirs")
    assert "other accounts" in terms(job).held_because


@pytest.mark.parametrize("value", [2**60, -5, "tomorrow", {"set": True, "infinite": True}])
@pytest.mark.parametrize("field", ["deadline", "eligible_time"])
def test_what_is_no_time_holds_the_job(field: str, value: Any) -> None:
    assert f"{field} " in terms(shown(17, **{field: value})).held_because


def kinds(events: Sequence[Envelope]) -> list[str]:
    return [str(event.WhichOneof("payload")) for event in events]


ENDED = {"job_state": "COMPLETED", "start_time": SUBMIT_S + 10, "end_time": SUBMIT_S + 20}
FAILED = {**ENDED, "job_state": "FAILED"}
PENDING_TASKS = {"array_task_string": "3-9", "array_task_id": None}


@pytest.mark.parametrize(
    ("said", "others", "expected"),
    [
        ("afterok:20_*(unfulfilled)", [array(21, 20, 1, **ENDED), array(22, 20, 2, **ENDED)], True),
        ("afterok:20_*(unfulfilled)", [array(21, 20, 1, **ENDED), array(22, 20, 2, **RUNS)], False),
        (
            "afterok:20_*(unfulfilled)",
            [array(21, 20, 1, **ENDED), array(22, 20, 2, **FAILED)],
            False,
        ),
        ("afternotok:20_*(failed)", [array(21, 20, 1, **ENDED), array(22, 20, 2, **FAILED)], True),
        ("afterany:20(unfulfilled)", [array(21, 20, 1, **ENDED), array(22, 20, 2, **FAILED)], True),
        (
            "afterany:20_*(unfulfilled)",
            [array(21, 20, 1, **ENDED), shown(20, array_job_id=20, **PENDING_TASKS)],
            False,
        ),
        ("after:20_*+1(unfulfilled)", [array(21, 20, 1, **RUNS)], True),
        ("after:20_*+10(unfulfilled)", [array(21, 20, 1, **RUNS)], False),
        ("afterok:777(unfulfilled)", [], False),
        ("afterany:777(unfulfilled)", [], True),
        ("after:777+10(unfulfilled)", [], True),
        ("afternotok:777(unfulfilled)", [], False),
        ("afterany:20_1(unfulfilled)", [array(22, 20, 2, **ENDED)], True),
        ("afterany:20_5", [shown(20, array_job_id=20, **PENDING_TASKS)], False),
        ("afterok:21(unfulfilled)", [array(21, 20, 1, **ENDED), array(20, 20, 2, **RUNS)], True),
        ("afterok:20(unfulfilled)", [array(21, 20, 1, **RUNS), array(20, 20, 2, **ENDED)], False),
        ("expand:9(unfulfilled)?afterok:9(unfulfilled)", [shown(9, **ENDED)], False),
        ("afterok:8(unfulfilled)?afterok:9(unfulfilled)", [shown(9, **ENDED)], True),
        ("afterok:8(unfulfilled),afterok:9(unfulfilled)", [shown(9, **ENDED)], False),
        ("singleton(unfulfilled)", [shown(9, **RUNS, account="other")], False),
        ("singleton(unfulfilled)", [shown(9, account="other")], False),
        ("singleton(unfulfilled)", [shown(18, account="other"), shown(9, **ENDED)], True),
    ],
)
def test_what_has_no_equal_is_met_by_the_states_of_the_jobs_that_it_names(
    said: str, others: list[SlurmJob], expected: bool
) -> None:
    job = shown(17, dependency=said)
    assert ShownJobs([*others, job], SITE).is_met(job, SUBMIT_S + 120.0) is expected


def test_a_job_is_let_in_when_what_it_was_held_for_is_met_also_by_a_later_process() -> None:
    region = PlayedRegion()
    told = region.told
    waits, tasks = (
        shown(17, dependency="afterok:20_*(unfulfilled)"),
        [array(21, 20, 1, **RUNS, account="other")],
    )
    done = [array(21, 20, 1, **{**RUNS, **ENDED}, account="other")]
    first = SlurmPublisher(region, TERMS)
    with capture_logs() as logs:
        for beside in (tasks, tasks, done, done):
            first.tell([waits, *beside])
    of_job = [event for event in told if "/17/" in event.id]
    assert kinds(of_job) == ["job_submitted", "job_released"]
    job_id, reason = of_job[0].job_submitted.job_id, of_job[0].job_submitted.held_because
    assert reason == f"{MARK}dependency 'afterok:20_*(unfulfilled)' is of a job of another account"
    released = of_job[1]
    assert (released.job_released.job_id, released.time_us) == (job_id, SUBMIT_S * 1_000_000 + 1)
    assert f"held. {MARK}dependency" in logs[0]["problem"]

    known = ListedJob(job_id=job_id, reason=f"held: {reason}")
    for listed, expected in (([known], "job_released"), ([], "job_submitted")):
        told.clear()
        runs = RunsSeen(SITE, partial(list, listed))
        SlurmPublisher(region, TERMS, runs).tell([shown(17)])
        assert expected in kinds(told)


def test_a_job_whose_times_are_not_understood_is_never_let_in() -> None:
    job = shown(17, deadline="tomorrow")
    assert not ShownJobs([job], SITE).is_met(job, SUBMIT_S + 120.0)


def test_a_job_is_not_let_in_before_its_begin() -> None:
    ended = array(21, 20, 1, **ENDED)
    job = shown(17, dependency="afterok:20_*(unfulfilled)", eligible_time=SUBMIT_S + 600)
    beside = ShownJobs([ended, job], SITE)
    assert [beside.is_met(job, SUBMIT_S + after_s) for after_s in (599.0, 600.0)] == [False, True]


def test_a_job_that_waits_for_its_features_too_is_not_let_in_by_its_dependency() -> None:
    region = PlayedRegion()
    told = region.told
    waits = shown(17, dependency="afterany:20_*(unfulfilled)", features="gpu*2")
    publisher = SlurmPublisher(region, TERMS)
    for beside in (array(21, 20, 1, **RUNS), array(21, 20, 1, **{**RUNS, **ENDED})):
        publisher.tell([waits, beside])
    [submitted] = [event for event in told if "/17/" in event.id]
    assert submitted.job_submitted.held_because.startswith("Coplace can't follow it: features")

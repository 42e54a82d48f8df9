"""Whose task an id is, for services that follow jobs: until all tasks of an array have ended."""

from decimal import Decimal

from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED, JobStarted, JobSubmitted

from services.energy.processor.runs import JobRun, Runs
from services.ingest.region import KnownRegion
from services.watch.users import JobUsers
from shared.arrays.known_arrays import KnownArrays
from shared.catalogue.event import Event
from shared.domain.job import JobState
from shared.streams.state.state import State
from tests.support.messaging import START_US
from tests.unit.services.pricing import support as pricing
from tests.unit.services.pricing.support import HOUR_US, JOB, Driver
from tests.unit.shared.placement import region

DAY_US = 86_400_000_000


def array() -> JobSubmitted:
    """Tasks 1, 3 and 5."""
    return pricing.submitted(array="1-5:2")


def test_an_array_is_known_until_its_last_task_has_ended_also_after_a_restart() -> None:
    state = State({})
    known = KnownArrays(state)
    known.submit(array())
    assert (known.array_of(f"{JOB}_3"), known.array_of(f"{JOB}_2")) == (JOB, None)
    assert [known.end(f"{JOB}_{index}") for index in (1, 1, 5)] == [None, None, None]
    kept = {key: value for key, value in state.changes().items() if value is not None}
    again = KnownArrays(State(kept))
    assert again.end(f"{JOB}_3") == JOB
    assert again.array_of(f"{JOB}_3") is None


def test_an_array_that_left_its_queue_has_ended() -> None:
    known = KnownArrays(State({}))
    known.submit(array())
    known.submit(pricing.submitted(job_id="other"))
    assert known.end("other") is None
    assert known.end(JOB) == JOB


def test_each_task_is_charged_and_the_array_is_not() -> None:
    driver = Driver()
    driver.take(array())
    for index in (1, 3):
        driver.take(pricing.finished(job_id=f"{JOB}_{index}"))
        driver.crash()
    charges = driver.end_round(0, START_US + HOUR_US)
    assert [charge.job_id for charge in charges] == [f"{JOB}_1", f"{JOB}_3"]
    assert {Decimal(charge.price_su) for charge in charges} == {Decimal("34.56")}


def test_an_array_that_never_started_costs_nothing() -> None:
    driver = Driver()
    end = {"outcome": JOB_OUTCOME_CANCELLED, "started_at_us": 0, "cores_per_node": 24}
    driver.take(array(), pricing.finished(**end))
    [charge] = driver.end_round(0, START_US + HOUR_US)
    assert Decimal(charge.price_su) == 0


def test_a_task_that_starts_although_its_array_left_the_queue_is_charged() -> None:
    driver = Driver()
    end = {"outcome": JOB_OUTCOME_CANCELLED, "started_at_us": 0, "cores_per_node": 24}
    driver.take(array(), pricing.finished(**end))
    driver.crash()
    driver.take(pricing.beside(f"{JOB}_1"), pricing.finished(job_id=f"{JOB}_1"))
    charges = driver.end_round(0, START_US + HOUR_US)
    assert {charge.job_id: (charge.account, Decimal(charge.price_su)) for charge in charges} == {
        JOB: ("physics", Decimal(0)),
        f"{JOB}_1": ("physics", Decimal("34.56")),
    }


def test_an_array_that_left_its_queue_is_forgotten_with_its_record() -> None:
    state = State({})
    known = KnownArrays(state)
    runs = Runs(state.table("job", JobRun), known, remember_us=HOUR_US)
    runs.fold(array())
    runs.fold(pricing.finished(started_at_us=0, outcome=JOB_OUTCOME_CANCELLED))
    runs.forget(START_US)
    assert known.array_of(f"{JOB}_1") == JOB
    runs.forget(START_US + HOUR_US)
    assert known.array_of(f"{JOB}_1") is None


def test_the_advisor_follows_tasks_and_forgets_the_array_with_the_last() -> None:
    state = State({})
    runs = Runs(state.table("job", JobRun), KnownArrays(state), remember_us=HOUR_US)
    runs.fold(array())
    runs.fold(JobStarted(job_id=f"{JOB}_1", attempt=1, cluster="c"))
    task = runs.get(f"{JOB}_1")
    assert task is not None
    assert (task.user, task.state, task.cluster) == ("ada", JobState.RUNNING, "c")
    for index in (1, 3, 5):
        runs.fold(pricing.finished(job_id=f"{JOB}_{index}"))
    runs.forget(START_US)
    runs.forget(START_US + HOUR_US)
    assert runs.get(JOB) is None
    assert runs.get(f"{JOB}_1") is None


def test_a_task_is_of_the_owner_of_its_array_where_callers_are_held_to_what_is_theirs() -> None:
    known = KnownRegion(remember_us=DAY_US, site_clusters=10)
    known.fold(_event(array()))
    known.fold(_event(JobStarted(job_id=f"{JOB}_3", attempt=1, cluster="c")))
    owned = [known.job(f"{JOB}_{index}").user for index in (1, 3, 4)]
    assert owned == ["ada", "ada", ""]


def test_a_watcher_is_handed_the_tasks_of_own_arrays() -> None:
    users = JobUsers(DAY_US, 10, lambda: START_US)
    users.fold(_event(array()))
    assert [users.get(f"{JOB}_{index}") for index in (1, 2)] == ["ada", None]


def _event(payload: JobSubmitted | JobStarted) -> Event:
    return region.event(payload.job_id, payload, START_US)

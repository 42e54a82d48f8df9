"""Users of jobs are known as long as something may be decided on them, and no more are kept."""

from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_CANCELLED, VERDICT_REJECTED, VERDICT_START
from google.protobuf.message import Message

from services.watch.model import LoggedDecision
from services.watch.users import JobUsers
from shared.catalogue.event import Event
from tests.unit.services.watch.fake_log import decided


class Jobs:
    """Users, at a time that the test sets."""

    def __init__(self, kept_us: int = 100, most: int = 1_000) -> None:
        self.now_us = 0
        self.users = JobUsers(kept_us, most, lambda: self.now_us)

    def happened(self, *payloads: Message) -> None:
        for each in payloads:
            self.users.fold(Event("", "", 0, "", each))

    def submitted(self, *job_ids: str, user: str = "ada") -> None:
        self.happened(*(JobSubmitted(job_id=job_id, user=user) for job_id in job_ids))


def test_a_job_that_is_over_is_known_for_a_time_and_forgotten_then() -> None:
    jobs = Jobs(kept_us=100)
    jobs.submitted("one", "two")
    jobs.happened(JobFinished(job_id="one"))
    jobs.now_us = 100
    jobs.submitted("three")
    assert jobs.users["one"] == "ada"
    assert jobs.users.forgotten_until_us == 0
    jobs.now_us = 101
    jobs.submitted("four")
    assert list(jobs.users) == ["two", "three", "four"]


def test_a_job_that_placement_drops_is_over() -> None:
    for verdict in (VERDICT_CANCELLED, VERDICT_REJECTED, VERDICT_START):
        jobs = Jobs(kept_us=0)
        jobs.submitted("one")
        bytes_of = decided("one", verdict=verdict).SerializeToString()
        jobs.users.decide(LoggedDecision.from_bytes(0, 0, 0, bytes_of))
        jobs.now_us = 1
        jobs.submitted("two")
        assert ("one" in jobs.users) == (verdict == VERDICT_START)


def test_a_job_that_is_requeued_or_submitted_again_is_not_over() -> None:
    jobs = Jobs(kept_us=0)
    jobs.submitted("one", "two")
    jobs.happened(JobFinished(job_id="one"), JobRequeued(job_id="one"))
    jobs.happened(JobFinished(job_id="two"))
    jobs.submitted("two", user="eve")
    jobs.now_us = 1
    jobs.submitted("three")
    assert dict(jobs.users) == {"one": "ada", "two": "ada", "three": "ada"}


def test_where_too_many_are_known_those_that_are_over_leave_first() -> None:
    jobs = Jobs(most=3)
    jobs.submitted("one", "two", "three")
    jobs.now_us = 7
    jobs.happened(JobFinished(job_id="three"))
    jobs.submitted("four")
    assert list(jobs.users) == ["one", "two", "four"]
    assert jobs.users.forgotten_until_us == 7
    assert jobs.users.forgotten_unended == 0
    jobs.submitted("five")
    assert list(jobs.users) == ["two", "four", "five"]
    assert jobs.users.forgotten_unended == 1


def test_jobs_of_nobody_are_noted_and_leave_as_if_they_were_over() -> None:
    jobs = Jobs(kept_us=0)
    jobs.users.note_unknown(["odd"])
    assert jobs.users["odd"] == ""
    jobs.now_us = 1
    jobs.submitted("one")
    assert list(jobs.users) == ["one"]
    assert jobs.users.forgotten_until_us == 0

"""No fact of a job is sent twice, whichever way says it first."""

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobFinished, JobSubmitted

from services.slurm.adapters.published_facts import PublishedFacts


def submitted(job_id: str, event_id: str) -> Envelope:
    return Envelope(id=event_id, job_submitted=JobSubmitted(job_id=job_id))


def finished(job_id: str) -> Envelope:
    return Envelope(id=f"{job_id}/end", job_finished=JobFinished(job_id=job_id))


def test_what_slurm_shows_is_known_until_it_is_shown_no_more() -> None:
    published = PublishedFacts()
    published.remember({"a/1": submitted("a", "a/1"), "a/end": finished("a")})
    assert published.has(finished("a"))
    assert published.has(submitted("a", "another id"))
    assert published.submitted == {"a"}
    published.remember({})
    assert not published.has(finished("a"))
    assert not published.has(submitted("a", "a/1"))


def test_what_a_file_said_is_known_for_ten_minutes() -> None:
    times_s = iter([0.0, 599.0, 601.0])
    published = PublishedFacts(lambda: next(times_s))
    published.note([finished("a")])
    published.note([finished("b")])
    assert published.has(finished("a"))
    published.remember({})  # Slurm does not show it yet
    assert published.has(finished("a"))
    published.note([])
    assert not published.has(finished("a"))
    assert published.has(finished("b"))


def test_facts_without_a_job_that_was_submitted_are_told_apart() -> None:
    published = PublishedFacts()
    published.remember({"a/end": finished("a")})
    assert not published.has(finished("b"))

"""Jobs come and go by files."""

import os
from pathlib import Path

import pytest

from coplace_agent.adapters.jobs import AttachedJobs, JobFile, JobFolder
from coplace_agent.watchdog import started_ticks
from coplace_client.heartbeats.coplace_heartbeat import Heartbeat
from tests.support.agent import await_end, job, pids_of, stop

ID = "north/alpha/4711/1767225600"


def test_a_job_is_attached_until_its_file_is_removed(tmp_path: Path) -> None:
    folder, table = JobFolder(tmp_path), AttachedJobs(JobFolder(tmp_path), frozenset())
    with job() as first:
        folder.attach(JobFile(job_id=ID, pid=first))
        table.look()
        assert list(table.running()) == [f"{ID}/1"]
        assert folder.detach(f"{ID}/1")
        table.look()
        assert not table.running()
    assert not folder.detach(f"{ID}/1")


def test_a_job_that_is_over_goes_with_its_file(tmp_path: Path) -> None:
    folder, table = JobFolder(tmp_path), AttachedJobs(JobFolder(tmp_path), frozenset())
    with job() as first:
        folder.attach(JobFile(job_id=ID, pid=first))
        table.look()
        pids = pids_of(first)
    await_end(pids)
    table.look()
    assert not table.running()
    assert not list(folder.jobs())


def test_a_job_that_its_resource_manager_suspended_is_left_out(tmp_path: Path) -> None:
    folder, table = JobFolder(tmp_path), AttachedJobs(JobFolder(tmp_path), frozenset())
    with job(children=0) as first:
        folder.attach(JobFile(job_id=ID, pid=first))
        table.look()
        stop(first)
        assert not table.running()
        table.look()
        assert list(folder.jobs())


def test_a_file_of_a_process_that_ended_means_no_other_of_its_id(tmp_path: Path) -> None:
    folder, table = JobFolder(tmp_path), AttachedJobs(JobFolder(tmp_path), frozenset())
    with job(children=0) as first:
        folder.attach(JobFile(job_id=ID, pid=first, started_ticks=started_ticks(first) + 1))
        table.look()
        assert not table.running()


def test_who_would_pause_the_agent_or_another_job_is_refused(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    with job(children=1) as first:
        table = AttachedJobs(folder, frozenset({os.getpid()}))
        folder.attach(JobFile(job_id="outer", pid=os.getpid()))
        folder.attach(JobFile(job_id="a", pid=first))
        folder.attach(JobFile(job_id="b", pid=first))
        table.look()
        assert len(table.running()) == 1


def test_progress_is_read_as_soon_as_the_application_counts(tmp_path: Path) -> None:
    folder, table = (
        JobFolder(tmp_path / "jobs"),
        AttachedJobs(JobFolder(tmp_path / "jobs"), frozenset()),
    )
    with job(children=0) as first:
        folder.attach(JobFile(job_id=ID, pid=first, heartbeats=tmp_path / "beats"))
        table.look()
        [attached] = table.running().values()
        assert attached.progress is None
        Heartbeat(0, str(tmp_path / "beats"))
        table.look()
        assert attached.progress is not None
        table.close()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"job_id": "a"}', '{"job_id": "a", "pid": 1}', '{"pid": "x"}', "9" * 100_000],
)
def test_a_file_that_cannot_be_used_hinders_no_other(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    (tmp_path / "folder.json").mkdir()
    folder = JobFolder(tmp_path)
    folder.attach(JobFile(job_id="x" * 256, pid=2))
    assert [each.job_id for each in folder.jobs()] == ["x" * 256]

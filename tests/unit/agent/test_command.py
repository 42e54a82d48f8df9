"""`coplace-agent`: jobs are attached and detached, and what was left paused is continued."""

import fcntl
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from coplace_agent.command import main
from coplace_agent.watchdog import PROCESS, started_ticks
from tests.support.agent import job, none_stops, stop

JOB = "north/alpha/4711/1767225600"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COPLACE_AGENT_RUN_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def says(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What the command prints, or ends with."""

    def said(*words: str) -> str:
        try:
            main(words)
        except SystemExit as end:
            return f"{end.code}\n"
        return capsys.readouterr().out

    return said


Says = Callable[..., str]


def test_a_job_is_attached_listed_and_detached(says: Says) -> None:
    with job(children=0) as first:
        assert says("attach", JOB, "--pid", str(first), "--cores", "2") == f"attached {JOB}/1\n"
        [listed] = [json.loads(line) for line in says("jobs", "--output", "json").splitlines()]
        assert listed["job"] == JOB
        assert listed["processes"] == str(first)
        assert listed["progress"] == "IPC"
    assert says("detach", JOB) == f"detached {JOB}/1\n"
    assert says("detach", JOB) == f"error: {JOB}/1 is not attached\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "name either a process or a control group"),
        (["--pid", "4194305"], "process 4194305 does not run"),
        (["--pid", "2", "--cgroup", "/sys"], "name either a process or a control group"),
    ],
)
def test_what_is_no_job_is_reported_in_one_line(says: Says, words: list[str], problem: str) -> None:
    assert says("attach", JOB, *words) == f"error: {problem}\n"


def test_what_an_agent_and_its_watchdog_left_paused_is_released(folder: Path, says: Says) -> None:
    assert says("release") == "nothing was paused here\n"
    with job(children=0) as first:
        stop(first)
        (folder / "paused").write_text(f'[["{PROCESS}",{first},{started_ticks(first)}]]\n')
        assert says("release") == "nothing is paused any more\n"
        assert none_stops([first])


def test_while_a_watchdog_is_at_work_it_releases(folder: Path, says: Says) -> None:
    with (folder / "paused").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert says("release").startswith("error: a watchdog is at work")

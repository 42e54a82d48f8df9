"""What `sacct` says is read in parts, and never all at once."""

import json
import os
from pathlib import Path
from typing import Final

import pytest

from services.slurm.adapters import accounts
from services.slurm.adapters.accounts import ended_runs
from services.slurm.adapters.commands import SlurmError
from tests.unit.shared.slurm.three_ways import T0_S, Stretch, TrueRun


@pytest.fixture
def sacct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sacct that writes what the file beside it holds, and notes how it is called."""
    file = tmp_path / "sacct"
    file.write_text(f'#!/bin/sh\necho "$TZ $@" >> {tmp_path}/calls\ncat {tmp_path}/answer\n')
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def test_accounts_are_read_an_hour_at_a_time_and_what_ended_at_another_time_is_left_out(
    sacct: Path,
) -> None:
    [row] = TrueRun([Stretch("n1", 2, 9)], name="na\udcefve").sacct()
    answer = json.dumps({"jobs": [row]}, ensure_ascii=False)
    (sacct / "answer").write_bytes(answer.encode(errors="surrogateescape"))
    parts = list(ended_runs(T0_S, T0_S + 7_000))
    assert [len(part) for part in parts] == [1, 0]
    calls = (sacct / "calls").read_text().splitlines()
    assert [line.split()[0] for line in calls] == ["UTC", "UTC"]
    assert "--starttime=2026-11-26T13:33:20 --endtime=2026-11-26T14:33:20" in calls[0]


# Of all jobs it says more than is read at once; of some what the file beside it holds.
_LARGE = """#!/bin/sh
echo "$TZ $@" >> {folder}/calls
case "$*" in
*--format=JobID*) cat {folder}/names ;;
*--jobs=*) cat {folder}/answer ;;
*) head -c 100000 /dev/zero ;;
esac
"""


def test_of_a_second_that_is_too_large_some_jobs_are_read_at_a_time(
    sacct: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "_MOST_BYTES", 50_000)
    monkeypatch.setattr(accounts, "_JOBS_AT_ONCE", 2)
    (sacct / "sacct").write_text(_LARGE.format(folder=sacct))
    (sacct / "names").write_text("9_1\n9_1\n9_2\n9_[3-7%2]\n10+1\n")
    run = TrueRun([Stretch("n1", 2, 9)])
    (sacct / "answer").write_text(json.dumps({"jobs": run.sacct()}))
    ended_s = run.edges_s[-1]
    found = list(ended_runs(ended_s - 3, ended_s + 1))
    asked = [line.rpartition("--jobs=")[2] for line in (sacct / "calls").read_text().splitlines()]
    assert [each.split()[0] for each in asked if each[0].isdigit()][-2:] == ["9_1,9_2", "10+1"]
    assert sum(map(len, found)) == 2


def test_one_job_that_is_too_large_is_named(sacct: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "_MOST_BYTES", 10)
    (sacct / "sacct").write_text(_LARGE.format(folder=sacct))
    (sacct / "names").write_text("9\n")
    (sacct / "answer").write_text("x" * 20)
    with pytest.raises(SlurmError, match="too much of one of the jobs 9"):
        list(ended_runs(T0_S, T0_S + 1))


# Its script ended 4 s after its start.
_REQUEUED: Final = """#!/bin/sh
case "$*" in
*--jobs=9*--format=JobIDRaw*) echo "9.batch|FAILED|2026-11-26T13:33:30|2026-11-26T13:33:34" ;;
*) cat {folder}/answer ;;
esac
"""


def test_the_script_of_a_job_that_was_requeued_says_when_its_run_ended(sacct: Path) -> None:
    (sacct / "sacct").write_text(_REQUEUED.format(folder=sacct))
    rows = TrueRun([Stretch("n1", 2, 9)], state="REQUEUED").sacct()
    (sacct / "answer").write_text(json.dumps({"jobs": rows}))
    [[run]] = ended_runs(T0_S, T0_S + 100)
    assert (run.state, run.core_s) == ("FAILED", 8)


@pytest.mark.parametrize("answer", ["", "no JSON", "{}", "[]", '{"jobs": 7}'])
def test_an_answer_that_is_no_list_of_jobs_says_what_is_needed(sacct: Path, answer: str) -> None:
    (sacct / "answer").write_text(answer)
    with pytest.raises(SlurmError, match="slurmdbd and its JSON plugin"):
        list(ended_runs(T0_S, T0_S + 1))


def test_what_sacct_says_of_its_failure_is_shown(sacct: Path) -> None:
    (sacct / "sacct").write_text("#!/bin/sh\necho 'no slurmdbd' >&2\nexit 1\n")
    with pytest.raises(SlurmError, match="no slurmdbd"):
        list(ended_runs(T0_S, T0_S + 1))

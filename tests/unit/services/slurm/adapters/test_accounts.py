"""What `sacct` says is read in parts, and never all at once."""

import json
import os
from pathlib import Path

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


def test_an_hour_that_is_too_large_is_read_in_halves(
    sacct: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "_MOST_BYTES", 10)
    (sacct / "answer").write_text(json.dumps({"jobs": [], "more": "x" * 20}))
    with pytest.raises(SlurmError, match="too much of one second"):
        list(ended_runs(T0_S, T0_S + 8))
    assert len((sacct / "calls").read_text().splitlines()) == 4


@pytest.mark.parametrize("answer", ["", "no JSON", "{}", "[]", '{"jobs": 7}'])
def test_an_answer_that_is_no_list_of_jobs_says_what_is_needed(sacct: Path, answer: str) -> None:
    (sacct / "answer").write_text(answer)
    with pytest.raises(SlurmError, match="slurmdbd and its JSON plugin"):
        list(ended_runs(T0_S, T0_S + 1))


def test_what_sacct_says_of_its_failure_is_shown(sacct: Path) -> None:
    (sacct / "sacct").write_text("#!/bin/sh\necho 'no slurmdbd' >&2\nexit 1\n")
    with pytest.raises(SlurmError, match="no slurmdbd"):
        list(ended_runs(T0_S, T0_S + 1))

"""Accounts beside charges: what is missing is published, and each difference is a row."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import ChargeMade

from cli.slurm import accounts
from cli.slurm.accounts import ended_runs
from cli.slurm.catch_up import Charged, differences
from services.slurm.adapters.commands import SlurmError
from shared.slurm.facts import Site
from shared.slurm.sacct import SacctRun, runs
from tests.unit.shared.slurm.three_ways import T0_S, Stretch, TrueRun

SITE = Site("north", "none", "m0")
JOB = f"north/alpha/9/{T0_S}"
TIMES_US = range(T0_S * 1_000_000, (T0_S + 7_200) * 1_000_000)


def ended(**changes: Any) -> SacctRun:
    """A run of two cores and nine seconds."""
    [run] = runs(TrueRun([Stretch("n1", 2, 9)], **changes).sacct())
    return run


def charge(core_s: float, revision: int = 1, **changes: Any) -> ChargeMade:
    end = JobFinished(ended_at_us=(T0_S + 19) * 1_000_000)
    values: Mapping[str, Any] = {"job_id": JOB, "cluster": "alpha", "finished": end, **changes}
    return ChargeMade(revision=revision, cores=2, runtime_s=core_s / 2, **values)


def rows(*charges: ChargeMade, found: list[SacctRun] | None = None) -> list[tuple[object, ...]]:
    charged = Charged.of_slurm(charges, "north", "alpha", TIMES_US)
    known = [ended()] if found is None else found
    shown = [each.row() for _, each in differences(known, charged.core_us, SITE)]
    return [tuple(row.values()) for row in shown]


def test_a_run_whose_last_revision_has_its_core_time_is_no_difference() -> None:
    assert rows(charge(18)) == []
    assert rows(charge(18, 2), charge(20)) == []


def test_each_difference_is_a_row() -> None:
    assert rows() == [(JOB, "not charged", 18, None)]
    assert rows(charge(20)) == [(JOB, "other core time", 18, 20.0)]
    assert rows(charge(18), found=[]) == [(JOB, "not in the accounts", None, 18.0)]


def test_charges_of_other_clusters_and_times_are_not_compared() -> None:
    late = JobFinished(ended_at_us=TIMES_US.stop)
    others = charge(20, job_id=f"north/beta/9/{T0_S}"), charge(20, finished=late)
    assert rows(*others) == [(JOB, "not charged", 18, None)]


def test_what_never_had_nodes_needs_no_charge() -> None:
    never = list(runs(TrueRun([]).sacct()))
    assert (len(never), rows(found=never), rows(charge(0), found=[])) == (1, [], [])


def test_a_row_without_an_id_is_a_difference_and_ends_nothing() -> None:
    nameless = SacctRun({**ended().fields, "job_id": None})
    [row] = rows(charge(18), found=[nameless, ended()])
    assert "has no id: jobid" in str(row[1])


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
    row = ended(name="na\udcefve").fields
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

"""Jobs that wait go back to Slurm as their users submitted them, without a process of Coplace."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from coplace.v1.placement_pb2 import VERDICT_START, VERDICT_WITHDRAWN, PlacementDecided
from hypothesis import given
from hypothesis import strategies as st

from services.slurm.adapters import giving_back
from services.slurm.adapters.giving_back import GivenBack, alone, given_back, silence_s
from services.slurm.model import jobs as model
from services.slurm.model.jobs import GIVEN_BACK, IN_SILENCE, SlurmJob
from services.slurm.processor.orders import Decline, orders
from shared.slurm.grant_answer import GrantAnswer
from tests.unit.services.slurm.fields import JOB, RUNS, SUBMIT_S

_CHANGED: Final = {
    "priority": 9,
    "required_nodes": "n1",
    "time_limit": 7,
    "requeue": False,
}


def job(number: int, **changes: Any) -> dict[str, Any]:
    return {**JOB, "job_id": number, "priority": 0, **changes}


def test_the_words_are_those_of_the_process() -> None:
    assert (giving_back.GIVEN_BACK, giving_back.IN_SILENCE) == (model.GIVEN_BACK, model.IN_SILENCE)


def test_what_waits_is_given_back_and_what_its_user_holds_stays() -> None:
    plain = f"coplace grant=2 started freq_ghz=2.1 submit={SUBMIT_S}"
    word = f"{plain} wanted=n[1-2]"
    found = given_back(
        [
            job(1),
            job(2, required_nodes="n7"),
            job(3, admin_comment=word, priority=9, required_nodes="n1"),
            job(10, admin_comment=f"{plain} sizes=1-4", node_count=2, max_nodes=2),
            job(11, admin_comment=f"{plain} sizes=2-0", node_count=2, max_nodes=2),
            job(12, admin_comment=plain, node_count=2, max_nodes=2),
            job(13, admin_comment=f"{plain} cpus=1", minimum_cpus_per_node=1),
            job(14, admin_comment=f"{plain} cpus=1", minimum_cpus_per_node=2),
            job(4, comment="mine coplace held by its user"),
            job(5, **RUNS),
            job(6, priority=7),
            job(7, array_job_id=7, array_task_string="1-3%2"),
            job(8, job_state=["PENDING"], priority={"set": True, "number": 0}),
            job(9, job_state=["RUNNING"]),
        ]
    )
    assert found == [
        GivenBack(("1", "2", "12", "13", "7_[1-3]", "8")),
        GivenBack(("10",), ("NumNodes=1-4",)),
        GivenBack(("11",), ("NumNodes=2-100000",)),
        GivenBack(("14",), ("MinCPUsNode=1",)),
        GivenBack(("3",), ("ReqNodeList=n[1-2]",)),
    ]


def test_the_parts_of_a_heterogeneous_job_are_started_by_its_first() -> None:
    before = "parts=5|0|||n1;9|1|1-0|n7|"
    word = f"coplace grant=2 started freq_ghz=2.1 submit={SUBMIT_S} {before}"
    said = {"admin_comment": word, "excluded_nodes": "n2", "het_job_id": 5}
    other = job(6, het_job_offset=1, required_nodes="n2", max_nodes=1, **said)
    found = given_back([other, job(5, **said), job(7)])
    of_first = ("TimeLimit=5", "Requeue=0", "ExcNodeList=n1")
    of_other = ("ReqNodeList=n7", "NumNodes=1-100000", "TimeLimit=9", "Requeue=1", "ExcNodeList=")
    assert found == [GivenBack(("7",)), GivenBack(("5",), of_first, (("6", of_other),))]
    plain = given_back([job(5, het_job_id=5), job(6, het_job_id=5, het_job_offset=1)])
    assert plain == [GivenBack(("5",), (), (("6", ()),))]
    assert given_back([job(5, het_job_id=5, comment="coplace held by its user"), other]) == []


def test_what_was_given_back_is_left_alone_unless_it_was_not_released_then() -> None:
    again = given_back(
        [
            job(1, admin_comment=IN_SILENCE, priority=9),
            job(2, admin_comment=IN_SILENCE, state_reason="JobHeldUser"),
            job(3, admin_comment=GIVEN_BACK, state_reason="JobHeldAdmin"),
        ]
    )
    assert again == [GivenBack(("3",))]


def test_a_command_has_a_hundred_of_them_at_most() -> None:
    found = given_back(job(number) for number in range(1, 251))
    assert [len(group.jobs) for group in found] == [100, 100, 50]


@given(
    st.fixed_dictionaries(
        {
            "required_nodes": st.sampled_from(["", "n2", "n[1-2]"]),
            "time_limit": st.sampled_from([None, 1, 7, 60]),
            "requeue": st.booleans(),
        }
    ),
    st.booleans(),
)
def test_what_a_start_changed_is_as_it_was_submitted(
    asked: dict[str, Any], is_declined: bool
) -> None:
    """By what the process leaves in the job at the start, and again when it is declined."""
    word = SlurmJob(job(1, **asked)).answered(GrantAnswer(1, True, 2.1))
    shown = job(1, **_CHANGED, admin_comment=str(word))
    if is_declined:
        declined = SlurmJob(shown).answered(GrantAnswer(1))
        shown = {**shown, "priority": 0, "admin_comment": str(declined)}
    [group] = given_back([shown])
    assert {**{field: shown[field] for field in asked}, **_read(group)} == asked


def _read(group: GivenBack) -> dict[str, Any]:
    """What Slurm shows of what was changed."""
    found: dict[str, Any] = {}
    for change in group.restored:
        name, said = change.split("=", 1)
        match name:
            case "TimeLimit":
                found["time_limit"] = None if said == "UNLIMITED" else int(said)
            case "Requeue":
                found["requeue"] = said == "1"
            case _:
                found["required_nodes"] = said
    return found


@pytest.mark.parametrize("word", [GIVEN_BACK, IN_SILENCE])
def test_a_job_that_was_given_back_is_started_under_no_grant_and_not_held_for_one(
    word: str,
) -> None:
    waits = SlurmJob(job(1, admin_comment=word))
    for verdict in (VERDICT_START, VERDICT_WITHDRAWN):
        decision = PlacementDecided(job_id="x", verdict=verdict, grant=3)
        assert orders(decision, waits, 0) == [Decline("it was given back to Slurm")]


def test_a_silence_begins_when_coplace_spoke_last_or_now(tmp_path: Path) -> None:
    file = tmp_path / "heartbeat"
    assert silence_s(file, 1000.0) == 0
    os.utime(file, (1000, 1000))
    assert silence_s(file, 1300.0) == 300
    assert silence_s(file, 990.0) == -10
    assert silence_s(file, 500.0) == float("inf")


def run_alone(folder: Path, silent_s: float, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the program as a timer does, with commands of a Slurm that has one job."""
    (folder / "jobs").write_text(json.dumps({"jobs": [job(4)]}))
    (folder / "squeue").write_text(f"#!/bin/sh\ncat {folder}/jobs\n")
    (folder / "scontrol").write_text(
        f'#!/bin/sh\necho "$*" >> {folder}/log\necho "ClusterName = alpha"\n'
    )
    for name in ("squeue", "scontrol"):
        (folder / name).chmod(0o755)
    heartbeat = folder / "heartbeat"
    heartbeat.touch()
    at_s = heartbeat.stat().st_mtime - silent_s
    os.utime(heartbeat, (at_s, at_s))
    environment = {
        "PATH": f"{folder}:/usr/bin:/bin",
        "COPLACE_SLURM_HEARTBEAT_FILE": str(heartbeat),
        "COPLACE_FALLBACK_AFTER_S": "60",
        **more,
    }
    # -I: nothing of this project can be imported.
    command = [sys.executable, "-I", giving_back.__file__]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_program_gives_nothing_back_while_coplace_speaks(tmp_path: Path) -> None:
    done = run_alone(tmp_path, 30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "log").exists()


def test_the_program_leaves_its_word_before_it_releases_what_waits(tmp_path: Path) -> None:
    done = run_alone(tmp_path, 90)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1 jobs are Slurm's: Coplace has been silent for 9")
    assert (tmp_path / "log").read_text().splitlines()[1:] == [
        "hold 4",
        f"update JobId=4 AdminComment={IN_SILENCE}",
        "release 4",
    ]


def test_the_program_starts_none_of_the_jobs_that_may_run_elsewhere(tmp_path: Path) -> None:
    done = run_alone(tmp_path, 90, COPLACE_SLURM_ARCHITECTURE="x86_64")
    assert done.returncode == 1
    assert "none is started here" in done.stderr
    assert "release" not in (tmp_path / "log").read_text()
    assert run_alone(tmp_path, 90, COPLACE_SLURM_ARCHITECTURE="alpha").returncode == 0


def test_the_program_leaves_jobs_alone_that_the_process_takes_back(tmp_path: Path) -> None:
    with alone(tmp_path / "heartbeat") as is_alone:
        assert is_alone
        assert run_alone(tmp_path, 90).returncode == 0
    assert not (tmp_path / "log").exists()
    assert run_alone(tmp_path, 90).stdout.startswith("1 jobs are Slurm's")


def test_a_setting_that_is_wrong_is_one_line(tmp_path: Path) -> None:
    done = run_alone(tmp_path, 90, COPLACE_FALLBACK_AFTER_S="soon")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)

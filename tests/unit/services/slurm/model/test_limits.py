"""Limits of Slurm that have an equal are declared, and those that have none are known by name."""

from typing import Any

import pytest
from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_ACCOUNT,
    LIMIT_SUBJECT_QOS,
    LIMIT_SUBJECT_UNSPECIFIED,
    LIMIT_SUBJECT_USER,
    LimitsDeclared,
)

from services.slurm.model.jobs import SlurmJob
from services.slurm.model.limits import limited_by, limits_of
from shared.placement.state.limits import limit_of
from tests.unit.services.slurm.fields import JOB, RUNS

SITE = "north"
TRES = "cpu=64,mem=10T,node=4,gres/gpu=2,gres/gpu:a100=1,license/matlab=1,billing=9"


def test_a_qos_limits_all_together_and_each_user_and_account() -> None:
    row = ["long", "20", TRES, "1", "cpu=8", "5", "node=2"]
    together, user, account = limits_of([row], [], SITE)
    assert together == LimitsDeclared(
        subject=LIMIT_SUBJECT_QOS,
        name="long",
        most_running_jobs=20,
        most_nodes=4,
        most_cores=64,
        most_resources={"gpu": 2, "gpu:a100": 1},
        site=SITE,
    )
    assert (user.each, user.most_running_jobs, user.most_cores) == (LIMIT_SUBJECT_USER, 1, 8)
    assert (account.each, account.most_running_jobs, account.most_nodes) == (
        LIMIT_SUBJECT_ACCOUNT,
        5,
        2,
    )
    for each in (together, user, account):
        limit_of(each)


@pytest.mark.parametrize(
    "row",
    [
        [],
        ["long"],
        ["long", "", "", "", "", "", ""],
        # Nothing may run: that is no limit of Coplace's.
        ["long", "0", "cpu=0,gres/gpu=0", "x", "mem=4G", "99999999999", "cpu"],
        ["", "1", "", "", "", "", ""],
        ["lo\x1b[0m", "1", "", "", "", "", ""],
    ],
)
def test_what_is_no_limit_is_left_out(row: list[str]) -> None:
    assert limits_of([row], [row], SITE) == []


def test_an_account_limits_all_in_it_and_each_user_as_the_loosest_of_them() -> None:
    rows = [
        ["root", "", "", "", "", "", ""],
        ["science", "", "", "", "", "9", "root"],
        ["chem", "", "", "40", "cpu=100", "", "science"],
        ["chem", "ada", "", "", "", "", ""],
        ["chem", "bob", "", "", "cpu=4", "3", ""],
        ["chem", "eve", "fast", "", "", "1", ""],
        ["lab", "", "", "", "", "2", "chem"],
        ["lab", "ada", "", "", "", "", ""],
    ]
    found = {(each.subject, each.name, each.each): each for each in limits_of([], rows[:5], SITE)}
    assert found.keys() == {
        (LIMIT_SUBJECT_ACCOUNT, "chem", LIMIT_SUBJECT_UNSPECIFIED),
        (LIMIT_SUBJECT_ACCOUNT, "chem", LIMIT_SUBJECT_USER),
        (LIMIT_SUBJECT_USER, "bob", LIMIT_SUBJECT_UNSPECIFIED),
    }
    each = found[LIMIT_SUBJECT_ACCOUNT, "chem", LIMIT_SUBJECT_USER]
    assert (each.most_running_jobs, each.most_cores) == (9, 0)
    bob = found[LIMIT_SUBJECT_USER, "bob", LIMIT_SUBJECT_UNSPECIFIED]
    assert (bob.most_running_jobs, bob.most_cores) == (3, 4)
    # An association of a partition has no limit that Coplace knows.
    everyone = {(each.name, each.each): each for each in limits_of([], rows, SITE)}
    assert ("chem", LIMIT_SUBJECT_USER) not in everyone
    assert everyone["lab", LIMIT_SUBJECT_USER].most_running_jobs == 2
    assert ("ada", LIMIT_SUBJECT_UNSPECIFIED) not in everyone
    assert ("eve", LIMIT_SUBJECT_UNSPECIFIED) not in everyone


def test_accounts_in_a_circle_hold_up_nobody() -> None:
    rows = [["x", "", "", "", "", "", "y"], ["y", "", "", "", "", "", "x"]]
    assert limits_of([], [*rows, ["x", "ada", "", "", "", "", ""]], SITE) == []


@pytest.mark.parametrize(
    ("reason", "limit"),
    [
        ("QOSMaxJobsPerUserLimit", True),
        ("AssocGrpCpuLimit", True),
        ("QOSMaxWallDurationPerJobLimit", True),
        ("QOSMinCpuNotSatisfied", True),
        ("Resources", False),
        ("Priority", False),
        ("PartitionTimeLimit", False),
        ("", False),
        (None, False),
    ],
)
def test_a_job_that_was_released_is_limited_by_what_slurm_names(reason: Any, limit: bool) -> None:
    word = "coplace grant=2 started freq_ghz=2.1"
    released = {**JOB, "admin_comment": word, "priority": 5, "state_reason": reason}
    assert bool(limited_by(SlurmJob(released))) is limit
    assert limited_by(SlurmJob({**released, "priority": 0})) == ""
    assert limited_by(SlurmJob({**released, "admin_comment": "coplace grant=2 declined"})) == ""
    assert limited_by(SlurmJob({**released, **RUNS})) == ""

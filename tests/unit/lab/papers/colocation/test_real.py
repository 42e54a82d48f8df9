"""Queues of real programs, in order of arrival and in pairs."""

import subprocess
import time
from pathlib import Path

import pytest

from cli.profile.campaign import Campaign, Pinning
from lab.papers.colocation.real import Plan, makespan_s

CONFIG = "shared"


def campaign(**applications: str) -> Campaign:
    one = Pinning(primary=(0,), beside=(0,))
    return Campaign(applications=applications, placements={CONFIG: one})


@pytest.mark.parametrize("plan", [[(0,), (1,), (2,)], [(0, 2), (1,)], None])
def test_every_job_of_a_queue_runs_once(plan: Plan, tmp_path: Path) -> None:
    told = tmp_path / "told"
    found = campaign(a=f"sh -c 'sleep 0.05; echo a >> {told}'", b=f"sh -c 'echo b >> {told}'")
    assert 0.05 <= makespan_s(found, CONFIG, ["a", "b", "a"], plan) < 30
    assert sorted(told.read_text().split()) == ["a", "a", "b"]


@pytest.mark.parametrize("plan", [[(0, 1)], None])
def test_what_runs_beside_one_that_fails_is_not_left_behind(plan: Plan, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    fails = f"sh -c 'while ! test -s {pid}; do sleep 0.01; done; exit 3'"
    found = campaign(fails=fails, lasts=f"sh -c 'echo $$ > {pid}; exec sleep 60'")
    began_s = time.monotonic()
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        makespan_s(found, CONFIG, ["fails", "lasts"], plan)
    assert time.monotonic() - began_s < 30
    assert not Path("/proc", pid.read_text().strip()).exists()

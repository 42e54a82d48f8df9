"""`coplace slurm` says what is missing beside a Slurm, and gives its jobs back."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from services.slurm.model.jobs import GIVEN_BACK
from tests.support.agent_ingest import Ingest, served
from tests.unit.cli.command_line import coplace
from tests.unit.services.slurm.fields import JOB, NODE

CONFIG = """\
JobSubmitPlugins        = {plugins}
MinJobAge               = 86400 sec
SelectType              = select/linear
SLURM_VERSION           = 22.05.8
SlurmUser               = root(0)
TaskProlog              = /etc/slurm/task_prolog.sh
ClusterName             = alpha
"""
CLUSTERS = """\
clusters:
- {name: alpha, node_model: g, pstates_ghz: [2.0], idle_power_w: 90, peak_bandwidth_gbps: 140}
"""


class Commands:
    """Slurm's, in a folder that comes before all others; it notes what is changed."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        (folder / "clusters.yaml").write_text(CLUSTERS)
        self.shows(plugins="lua")

    def shows(self, plugins: str, *jobs: dict[str, Any], refuses: str = "none") -> None:
        """Set what they say; a command that names a job of these words fails."""
        (self._folder / "config").write_text(CONFIG.format(plugins=plugins))
        (self._folder / "jobs").write_text(json.dumps({"jobs": jobs}))
        (self._folder / "nodes").write_text(json.dumps({"nodes": [dict(NODE)]}))
        self._write("squeue", f"cat {self._folder}/jobs")
        self._write("sinfo", f"cat {self._folder}/nodes")
        log = f'echo "$*" >> {self._folder}/log'
        refusal = f"*{refuses}*) echo not now >&2; exit 1"
        of = f'case "$*" in "show config") cat {self._folder}/config;; {refusal};; *) {log};; esac'
        self._write("scontrol", of)

    def _write(self, name: str, script: str) -> None:
        (self._folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (self._folder / name).chmod(0o755)

    def changed(self) -> list[str]:
        """What was changed."""
        return (self._folder / "log").read_text().splitlines()


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(tmp_path, monkeypatch)


def test_what_is_missing_is_said_and_the_rest_is_well(commands: Commands, tmp_path: Path) -> None:
    commands.shows("(null)")
    with served(Ingest()) as port:
        where = ("--ingest", f"127.0.0.1:{port}", "--watch", "127.0.0.1:1")
        (tmp_path / "heartbeat").touch()
        files = ("--clusters", f"{tmp_path}/clusters.yaml", "--heartbeat", f"{tmp_path}/heartbeat")
        result = coplace("slurm", "check", *files, *where)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "ok       cluster alpha: 1 nodes of 36 cores" in lines
    assert "ok       squeue --json: 0 jobs of MaxJobCount=" in lines
    missing = [line.split()[1].rstrip(":") for line in lines if line.startswith("MISSING")]
    assert "JobSubmitPlugins=(null)" in missing
    assert "watch" in missing
    assert any(line.startswith("ok       Coplace spoke ") for line in lines)


def test_a_file_of_clusters_that_is_not_there_is_missing_as_the_rest_is(
    commands: Commands, tmp_path: Path
) -> None:
    result = coplace("slurm", "check", "--clusters", f"{tmp_path}/none.yaml")
    assert result.exit_code == 1
    assert "No such file" in result.stdout


def test_all_that_waits_is_given_back_in_few_commands(commands: Commands) -> None:
    jobs = [{**JOB, "job_id": number, "priority": 0} for number in (4, 5)]
    commands.shows("lua", *jobs)
    result = coplace("slurm", "release", "--all")
    assert (result.exit_code, result.stdout) == (0, "2 jobs are Slurm's\n")
    assert commands.changed() == [
        "hold 4,5",
        f"update JobId=4,5 AdminComment={GIVEN_BACK}",
        "release 4,5",
    ]


def test_a_job_that_slurm_refuses_keeps_no_other(commands: Commands) -> None:
    jobs = [{**JOB, "job_id": number, "priority": 0} for number in (4, 5)]
    commands.shows("lua", *jobs, refuses="5")
    result = coplace("slurm", "release", "--all")
    assert (result.exit_code, result.stdout) == (1, "1 jobs are Slurm's\n")
    assert "job 5 is not released" in result.stderr
    assert commands.changed()[-1] == "release 4"


def test_nothing_is_given_back_by_half(commands: Commands) -> None:
    assert coplace("slurm", "release").exit_code == 2

"""Debian's Slurm switches nodes off that are idle: jobs get those that are on first, and others
boot for a job."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from coplace.v1.control_pb2 import NodePowerDeclared
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobDeclined, JobFinished, JobStarted

from cli.kafka_topics import KafkaTopics
from deploy.local.servers import LocalServers
from services.slurm.adapters.commands import Slurm
from services.slurm.model.node_power import words_of
from tests.support.slurm import LocalSlurm, require_installed
from tests.support.slurm_region import CLUSTERS, Region, connected

BOOT_S: Final = 30
# n1 is never switched off. A job that was requeued may start again after the time of a credential.
POWER: Final = """\
SuspendProgram={folder}/switch-off
ResumeProgram={folder}/switch-on
SuspendTime=1
SuspendTimeout=2
ResumeTimeout={boot_s}
SuspendExcNodes=n1
AuthInfo=cred_expire=5
"""
SWITCH_OFF: Final = """\
#!/bin/sh
for node in $(scontrol show hostnames "$1"); do kill "$(cat {folder}/slurmd-$node.pid)"; done
"""
# Nothing boots while there is such a file. With -b a node says that it booted just now.
SWITCH_ON: Final = """\
#!/bin/sh
test -e {folder}/broken && exit 0
sleep 3
for node in $(scontrol show hostnames "$1"); do slurmd -b -N "$node"; done
"""


def write_program(file: Path, text: str) -> None:
    file.write_text(text.format(folder=file.parent))
    file.chmod(0o755)


@pytest.fixture(scope="module")
def region(servers: LocalServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    require_installed()
    folder = tmp_path_factory.mktemp("slurm-power")
    write_program(folder / "switch-off", SWITCH_OFF)
    write_program(folder / "switch-on", SWITCH_ON)
    slurm = LocalSlurm(folder, more=POWER.format(folder=folder, boot_s=BOOT_S))
    try:
        with connected(servers, slurm, f"{folder.name}-", CLUSTERS) as found:
            found.until(lambda: "alpha" in found.ask("clusters"), "the cluster")
            yield found
    finally:
        for file in folder.glob("slurmd-*.pid"):  # of what was booted
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(file.read_text()), signal.SIGTERM)


def declared(region: Region) -> NodePowerDeclared:
    """What was declared last of nodes that are off."""
    events = KafkaTopics(region.deployment).topic("commands")
    found = [each.payload for each in events if isinstance(each.payload, NodePowerDeclared)]
    return found[-1] if found else NodePowerDeclared()


def is_off(region: Region) -> bool:
    """Whether n2 is off, and Coplace knows it."""
    [node] = [node for node in Slurm().nodes() if node["name"] == "n2"]
    return "powered_down" in words_of(node) and list(declared(region).off) == ["n2"]


def test_a_job_gets_the_node_that_is_on_and_the_next_one_boots_the_other(region: Region) -> None:
    region.until(partial(is_off, region), "a node that is off")
    assert declared(region).boot_s == BOOT_S
    alone = ("--nodes=1", "--exclusive", "--time=5")
    first = region.slurm.submit("sleep 20", *alone)
    region.until(partial(region.facts, JobStarted, region.id_of(first)), "the first start")
    assert region.job(first).fields["nodes"] == "n1"
    second = region.slurm.submit("sleep 5", *alone)
    job_id = region.id_of(second)
    region.until_said("n2 boot first: it starts at about", "why", job_id)
    region.until(lambda: "n2 boot first" in region.job(second).note, "the note")
    assert region.job(second).fields["nodes"] in ("", "n2")
    region.until(partial(region.facts, JobFinished, job_id), "the end")
    # Slurm counts the start anew when the node has booted; Coplace reports none before.
    [started], [finished] = region.facts(JobStarted, job_id), region.facts(JobFinished, job_id)
    assert list(started.nodes) == ["n2"]
    assert started.started_at_us == finished.started_at_us
    assert finished.started_at_us == int(region.job(second).fields["start_time"]) * 1_000_000
    assert finished.outcome == JOB_OUTCOME_COMPLETED
    assert region.facts(JobDeclined, job_id) == []
    assert "drained" not in region.ask("nodes")


@pytest.mark.thorough
def test_a_job_whose_node_does_not_boot_starts_on_another(region: Region) -> None:
    """The process is killed meanwhile."""
    region.until(partial(is_off, region), "a node that is off")
    (region.slurm.folder / "broken").touch()
    alone = ("--nodes=1", "--exclusive", "--time=5")
    first = region.slurm.submit("sleep 20", *alone)
    region.until(partial(region.facts, JobStarted, region.id_of(first)), "the first start")
    second = region.slurm.submit("sleep 5", *alone)
    job_id = region.id_of(second)
    region.until(lambda: region.job(second).is_configuring, "a node that boots")
    region.kill()
    region.start()
    region.until(lambda: region.id_of(second) != job_id, "a requeue")
    region.until(lambda: region.job(second).state == "COMPLETED", "the end")
    assert region.job(second).fields["nodes"] == "n1"
    region.until_said("ResumeTimeout reached", "nodes")

"""Debian's Slurm, whose jobs a real ingest and placement start on real Kafka."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JobDeclined, JobFinished, JobStarted
from typer.testing import CliRunner

from cli.kafka_topics import KafkaTopics
from cli.main import app
from cli.slurm.jobs import SlurmJob
from cli.slurm.slurm import Slurm
from cli.stages import create_topics
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.support.slurm import LocalSlurm, is_installed

_WITHIN_S = 60.0


class Region:
    """A Slurm, what lies between, and Coplace."""

    def __init__(self, servers: LocalServers, slurm: LocalSlurm) -> None:
        self.slurm = slurm
        self.deployment = Deployment.from_settings(
            Settings(kafka_bootstrap=servers.kafka_bootstrap, namespace="slurm", kafka_partitions=2)
        )
        create_topics(self.deployment)
        self._ports = free_ports(4)
        self.ingest, self.placement = (f"127.0.0.1:{port}" for port in self._ports[:2])

    def programs(self) -> list[Program]:
        """Ingest and placement."""
        return [
            self._program("ingest", "INGEST", self._ports[0], self._ports[2]),
            self._program("placement", "PLACEMENT", self._ports[1], self._ports[3]),
        ]

    def _program(self, name: str, prefix: str, port: int, http_port: int) -> Program:
        environment = {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "COPLACE_NAMESPACE": "slurm",
            "COPLACE_KAFKA_PARTITIONS": "2",
            "COPLACE_HTTP_PORT": str(http_port),
            f"COPLACE_{prefix}_PORT": str(port),
        }
        command = [sys.executable, "-m", f"services.{name}"]
        return Program(
            f"slurm-{name}", command, environment, f"http://127.0.0.1:{http_port}/readyz"
        )

    def start(self, *programs: Sequence[str]) -> None:
        """`coplace slurm ...` beside this Slurm."""
        self._between = {tuple(each): self._start(*each) for each in programs}

    def kill(self) -> list[Sequence[str]]:
        """End what lies between at once; what that was."""
        for program in self._between.values():
            program.kill()
            program.wait(30)
        return list(self._between)

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {
            **self.slurm.environment,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "COPLACE_KAFKA_BOOTSTRAP": self.deployment.settings.kafka_bootstrap,
            "COPLACE_NAMESPACE": "slurm",
            "COPLACE_KAFKA_PARTITIONS": "2",
            "COPLACE_INGEST_ADDRESS": self.ingest,
            "COPLACE_PLACEMENT_ADDRESS": self.placement,
        }
        program = "from cli.main import app; app()"
        command = [sys.executable, "-c", program, "slurm", *arguments, "--site", "north"]
        log = (self.slurm.folder / f"{arguments[0]}.log").open("ab")
        with log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def job(self, number: int) -> SlurmJob:
        """A job as Slurm shows it."""
        [found] = [job for job in Slurm().jobs() if job.job_id == number]
        return found

    def is_cancelled(self, number: int) -> bool:
        """Whether it is over in Slurm by somebody's word."""
        return self.job(number).state == "CANCELLED"

    def id_of(self, number: int) -> str:
        """Its id in Coplace."""
        return f"north/alpha/{number}/{self.job(number).fields['submit_time']}"

    def ask(self, *arguments: str) -> str:
        """What `coplace` answers."""
        where = {"COPLACE_PLACEMENT_ADDRESS": self.placement, "COPLACE_INGEST_ADDRESS": self.ingest}
        result = CliRunner().invoke(app, arguments, env=where)
        return result.output

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until something holds."""
        deadline_s = time.monotonic() + _WITHIN_S
        while not holds():
            told = "".join(log.read_text() for log in self.slurm.folder.glob("*.log"))
            assert time.monotonic() < deadline_s, f"{what} did not come: {told[-3000:]}"
            time.sleep(0.2)

    def facts(self, kind: type[Any], job_id: str) -> list[Any]:
        """What `jobs.events` holds of a job, of one kind."""
        events = KafkaTopics(self.deployment).topic("jobs.events")
        payloads = [event.payload for event in events]
        return [each for each in payloads if isinstance(each, kind) and each.job_id == job_id]


@pytest.fixture(scope="module")
def region(servers: LocalServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    if not is_installed() and os.environ.get("CI") != "true":
        pytest.skip("no Slurm on this machine: make system-slurm")
    with ExitStack() as stack:
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        slurm = stack.enter_context(LocalSlurm(tmp_path_factory.mktemp("slurm")))
        environment.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
        found = Region(servers, slurm)
        programs = found.programs()
        servers.start(programs)
        stack.callback(servers.remove, programs)
        nodes = ("--node-model", "gold-6254", "--pstates-ghz", "1.2,2.0,3.1")
        draw = ("--idle-power-w", "110", "--peak-bandwidth-gbps", "140", "--period-s", "0.5")
        found.start(("tell", *nodes, *draw), ("obey",))
        stack.callback(found.kill)
        found.until(lambda: "alpha" in found.ask("clusters"), "the cluster")
        yield found


def test_a_job_starts_where_and_at_the_clock_that_is_decided_and_its_end_is_reported(
    region: Region, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    number = region.slurm.submit(
        f'echo "$SLURM_JOB_NODELIST $SLURM_CPU_FREQ_REQ" > {said}; sleep 1', "--nodes=1", "--time=5"
    )
    job_id = region.id_of(number)
    region.until(partial(region.facts, JobFinished, job_id), "the end")
    [finished] = region.facts(JobFinished, job_id)
    [started] = region.facts(JobStarted, job_id)
    assert said.read_text().split() == [*started.nodes, "3100000"]
    assert (started.grant, finished.grant, finished.freq_ghz) == (1, 1, 3.1)
    assert 1 <= (finished.ended_at_us - finished.started_at_us) / 1e6 < 30
    region.until(lambda: "has ended" in region.ask("why", job_id), "its end in placement")
    assert region.job(number).state == "COMPLETED"


def test_a_job_that_waits_or_runs_is_cancelled_in_slurm(region: Region) -> None:
    runs = region.slurm.submit("sleep 100", "--nodes=2", "--time=5")
    region.until(lambda: region.job(runs).has_nodes, "the start")
    waits = region.slurm.submit("sleep 100", "--nodes=2", "--time=5")
    waits_id, runs_id = region.id_of(waits), region.id_of(runs)
    region.until(lambda: "0 free" in region.ask("why", waits_id), "its reason")
    for number, job_id in ((waits, waits_id), (runs, runs_id)):
        assert "to be cancelled" in region.ask("cancel", job_id, "--reason", "wrong input")
        region.until(partial(region.is_cancelled, number), "the end in Slurm")
        region.until(partial(region.facts, JobFinished, job_id), "its end in Coplace")


def test_a_start_that_is_withdrawn_before_slurm_made_it_is_given_back(region: Region) -> None:
    def partition(state: str) -> None:
        region.slurm.say("scontrol", "update", "PartitionName=all", f"State={state}")

    partition("DOWN")  # Slurm takes jobs and starts none
    number = region.slurm.submit("sleep 1", "--nodes=1", "--time=5")
    job_id = region.id_of(number)
    region.until(lambda: region.job(number).word.is_started, "the release")
    region.ask("hold", job_id, "--reason", "ask ada first")
    region.until(partial(region.facts, JobDeclined, job_id), "the answer")
    region.until(lambda: "is held" in region.ask("why", job_id), "that it is held")
    partition("UP")
    assert (region.job(number).word.grant, region.job(number).word.is_started) == (1, False)
    region.ask("release", job_id)
    region.until(partial(region.facts, JobFinished, job_id), "its end in Coplace")
    [finished] = region.facts(JobFinished, job_id)
    [started] = region.facts(JobStarted, job_id)
    assert (started.grant, finished.grant) == (2, 2)


def test_a_node_that_slurm_takes_out_is_drained_until_it_is_back(region: Region) -> None:
    def change(*what: str) -> None:
        region.slurm.say("scontrol", "update", "NodeName=n2", *what)

    change("State=DRAIN", "Reason=a fan is broken")
    region.until(lambda: "a fan is broken" in region.ask("nodes", "alpha"), "the drain")
    programs = region.kill()
    change("State=RESUME")
    region.start(*programs)
    region.until(lambda: "drained" not in region.ask("nodes", "alpha"), "the resumption")


def test_what_lies_between_may_be_killed_at_any_moment(region: Region) -> None:
    number = region.slurm.submit("sleep 4", "--nodes=1", "--time=5")
    region.until(lambda: region.job(number).word.is_started, "the release")
    programs = region.kill()
    region.until(lambda: region.job(number).state == "COMPLETED", "the end in Slurm")
    region.start(*programs)
    job_id = region.id_of(number)
    region.until(partial(region.facts, JobFinished, job_id), "its end in Coplace")
    [finished] = region.facts(JobFinished, job_id)
    assert finished.grant == 1
    region.until(lambda: "has ended" in region.ask("why", job_id), "its end in placement")


def test_an_array_is_slurms_own_and_its_tasks_are_reported(region: Region) -> None:
    number = region.slurm.submit("sleep 1", "--array=1-2", "--time=5")
    tasks = [job for job in Slurm().jobs() if job.fields["array_job_id"] == number]
    submitted = tasks[0].fields["submit_time"]
    for task in (1, 2):
        job_id = f"north/alpha/{number}_{task}/{submitted}"
        region.until(partial(region.facts, JobFinished, job_id), "the end of a task")

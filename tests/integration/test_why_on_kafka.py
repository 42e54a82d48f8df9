"""From a submission to the answer why it waits, with a placement that decides and a
standby, on real Kafka."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobSubmitted, Part
from google.protobuf.message import Message
from typer.testing import CliRunner, Result

from cli.main import app
from cli.stages import create_topics
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from shared.catalogue.event import Event, Publish
from shared.process.settings import Settings
from shared.streams.on_kafka.clients import Publisher
from shared.streams.on_kafka.deployment import Deployment
from tests.support.snippets import HOW_TO, write_programs

_DEADLINE_S = 60.0
_WORKERS = ("placement", "placement-2")
_RUNS, _WAITS = "north/alpha/1/1767225600", "north/alpha/2/1767225601"
_IMPOSSIBLE = "north/alpha/3/1767225602"
_ARRAY = "north/alpha/4/1767225603"
_GANG = "north/alpha/5/1767225604"
_TIME_US = 1_767_225_600_000_000


class Region:
    """Two workers of placement, and what a test asks them."""

    def __init__(self, servers: LocalServers) -> None:
        self.servers = servers
        settings = Settings(
            kafka_bootstrap=servers.kafka_bootstrap, namespace="why", kafka_partitions=4
        )
        self.deployment = Deployment.from_settings(settings)
        create_topics(self.deployment)
        ports = free_ports(2 * len(_WORKERS))
        self._asked_at = dict(zip(_WORKERS, ports[::2], strict=True))
        self._programs = list(map(self._program, _WORKERS, ports[1::2]))
        servers.start(self._programs)

    def close(self) -> None:
        """End the workers."""
        self.servers.remove(self._programs)

    def publish(self, topic: str, payload: Message, key: str) -> None:
        """Append an event as ingest would."""
        name = payload.DESCRIPTOR.full_name
        event = Event(f"north/{name}/{key}", "north", _TIME_US, key, payload)
        with Publisher(self.deployment) as publisher:
            publisher.append([self.deployment.codec.encode(Publish(topic, event))])

    def why(self, job_id: str) -> Result:
        """What the worker that decides answers; the other says that it is a standby."""
        deadline = time.monotonic() + _DEADLINE_S
        while time.monotonic() < deadline:
            answers = [self.ask(name, job_id) for name in _WORKERS]
            found = [answer for answer in answers if "is a standby" not in answer.stderr]
            if len(found) == 1 and "Connection refused" not in found[0].stderr:
                return found[0]
            time.sleep(0.2)
        raise AssertionError(f"nobody decides: {[answer.stderr for answer in answers]}")

    def ask(self, worker: str, job_id: str) -> Result:
        """What one worker answers."""
        address = f"--address=127.0.0.1:{self._asked_at[worker]}"
        return CliRunner().invoke(app, ["why", job_id, address])

    def deciding(self) -> str:
        """The worker that is no standby."""
        [found] = [name for name in _WORKERS if self.ask(name, _RUNS).exit_code == 0]
        return found

    def deciding_address(self) -> str:
        """Where it answers."""
        return f"127.0.0.1:{self._asked_at[self.deciding()]}"

    def _program(self, name: str, http_port: int) -> Program:
        return Program(
            name,
            [sys.executable, "-m", "services.placement"],
            env={
                "PYTHONPATH": os.pathsep.join(sys.path),
                "COPLACE_NAMESPACE": "why",
                "COPLACE_KAFKA_PARTITIONS": "4",
                "COPLACE_SESSION_TIMEOUT_S": "6",
                "COPLACE_HTTP_PORT": str(http_port),
                "COPLACE_PLACEMENT_PORT": str(self._asked_at[name]),
                "COPLACE_PLACEMENT_START_TIMEOUT_S": "0",
            },
            ready_url=f"http://127.0.0.1:{http_port}/readyz",
        )


def cluster() -> ClusterDeclared:
    return ClusterDeclared(
        cluster="alpha",
        site="north",
        node_model="gold-6254",
        nodes=4,
        cores_per_node=36,
        pstates_ghz=[1.2, 3.1],
        idle_power_w=100,
        peak_bandwidth_gbps=200,
    )


def job(job_id: str, nodes: int = 4, array: str = "", at_most: int = 0) -> JobSubmitted:
    return JobSubmitted(
        job_id=job_id,
        attempt=1,
        user="ada",
        account="physics",
        nodes=nodes,
        walltime_s=3600,
        reference_cluster="alpha",
        submitted_at_us=_TIME_US,
        array=array,
        array_at_most=at_most,
    )


@pytest.fixture(scope="module")
def region(servers: LocalServers) -> Iterator[Region]:
    found = Region(servers)
    found.publish("commands", cluster(), "alpha")
    for job_id in (_RUNS, _WAITS):
        found.publish("jobs.events", job(job_id), job_id)
    while "as known at" not in found.why(_WAITS).stdout:
        time.sleep(0.1)
    yield found
    found.close()


def test_a_waiting_job_has_its_reason_its_promise_and_its_expected_start(
    region: Region,
) -> None:
    answer = region.why(_WAITS)
    assert answer.exit_code == 0, answer.output
    first, why, expected, before, promised = answer.stdout.splitlines()[:5]
    assert first == f"{_WAITS} waits, and nodes are reserved for it"
    assert why == "why: alpha: needs 4 nodes, 0 free"
    assert "(in 60 min) on alpha, if no other job arrives" in expected
    assert before.startswith("before it: 0 jobs are before it")
    assert promised.startswith("promised: 4 nodes of alpha at ")
    assert " 1 of 1 |" in answer.stdout
    assert "| capacity | needs 4 nodes, 0 free |" in answer.stdout


def test_a_job_whose_start_was_decided_says_where(region: Region) -> None:
    answer = region.why(_RUNS).stdout.splitlines()
    assert answer[0] == f"{_RUNS} is to start: its resource manager has not confirmed it yet"
    assert answer[1].startswith("on 4 nodes of alpha at 3.1 GHz since ")


def test_a_job_that_no_cluster_can_hold_is_rejected_with_what_is_lacking(region: Region) -> None:
    region.publish("jobs.events", job(_IMPOSSIBLE, nodes=5), _IMPOSSIBLE)
    answer = region.why(_IMPOSSIBLE)
    while "is rejected" not in answer.stdout:
        time.sleep(0.1)
        answer = region.why(_IMPOSSIBLE)
    first, why, *table = answer.stdout.splitlines()
    assert first == f"{_IMPOSSIBLE} is rejected: submit it anew or requeue it"
    assert why == "why: fits on no cluster: alpha: needs 5 nodes, the cluster has 4"
    assert any("alpha" in line and " 5 " in line and " 4 " in line for line in table)


def test_the_program_of_the_how_to_prints_where_a_job_waits_and_when_it_starts(
    region: Region, tmp_path: Path
) -> None:
    write_programs(HOW_TO / "ask-why.md", tmp_path)
    command = [sys.executable, "why.py", region.deciding_address(), _WAITS]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    standing, place, bound, expected = result.stdout.splitlines()
    assert standing == "JOB_STANDING_RESERVED alpha: needs 4 nodes, 0 free"
    assert place == "alpha: place 1 of 1: needs 4 nodes, 0 free"
    assert bound == "  CONSTRAINT_KIND_CAPACITY 0 of 4 nodes"
    assert expected.startswith("expected on alpha at ")


def test_an_unknown_job_ends_the_command_with_what_to_do(region: Region) -> None:
    answer = region.why("4711")
    assert answer.exit_code == 1
    assert "no job has the number 4711" in answer.stderr


def test_when_the_one_that_decides_is_killed_another_answers(region: Region) -> None:
    before = region.why(_RUNS).stdout
    deciding = region.deciding()
    region.servers.kill(deciding)
    region.servers.wait_ready(deciding)
    assert region.why(_RUNS).stdout == before
    assert region.why(_WAITS).stdout.startswith(f"{_WAITS} waits")


def test_an_array_and_each_of_its_tasks_say_how_far_it_is(region: Region) -> None:
    region.publish("jobs.events", job(_ARRAY, 2, array="0-99999", at_most=3), _ARRAY)
    answer = region.why(_ARRAY)
    while "as known at" not in answer.stdout:
        time.sleep(0.1)
        answer = region.why(_ARRAY)
    first, why, tasks = answer.stdout.splitlines()[:3]
    assert first.startswith(f"{_ARRAY} waits")
    assert why == "why: alpha: needs 2 nodes, 0 free"
    assert tasks == "tasks: 100000, at most 3 at once: 100000 waiting; next is 0"
    first, _, tasks = region.why(f"{_ARRAY}_4711").stdout.splitlines()[:3]
    assert first.startswith(f"{_ARRAY}_4711 waits")
    assert tasks.startswith(f"tasks of {_ARRAY}: 100000, at most 3 at once: ")


def test_a_gang_says_how_many_nodes_its_parts_lack_at_once(region: Region) -> None:
    leads = Part(units=1, nodes_wanted=["alpha-0003"])
    gang = job(_GANG, 3)
    gang.parts.extend([leads, Part(units=4, units_per_node=2)])
    region.publish("jobs.events", gang, _GANG)
    answer = region.why(_GANG)
    while "as known at" not in answer.stdout:
        time.sleep(0.1)
        answer = region.why(_GANG)
    first, why = answer.stdout.splitlines()[:2]
    assert first.startswith(f"{_GANG} waits")
    assert why == "why: alpha: needs 3 nodes in 2 parts at once, 0 free"

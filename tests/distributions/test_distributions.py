"""Each distribution is installed from its wheel into an environment of its own, and started."""

import json
import os
import signal
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.distributions.environments import (
    EXTRAS,
    Environment,
    build_wheels,
    compile_core_in_isolation,
    resident_mib,
)
from tests.support.agent_ingest import Ingest, served
from tests.support.patience import PATIENCE_S
from tests.support.snippets import HOW_TO, programs

_MOST_MIB: Final = 60.0
# A process of each kind that an extra is for.
_SERVICES: Final = {
    "server": (
        "services.ingest",
        "services.energy",
        "services.pricing",
        "services.pricing.accounts",
    ),
    "placement": ("services.placement",),
    "planner": ("services.planner",),
    "prediction": ("services.prediction",),
    "kubernetes": ("services.kubernetes", "services.kueue", "services.kueue.silence"),
    "slurm": ("services.slurm",),
    "rest": ("services.rest",),
    "history": ("services.history",),
    "webhooks": ("services.webhooks",),
    "archive": ("services.archive",),
}
_FOREIGN_TO_AGENTS: Final = {
    *("aiokafka", "kafka-python", "faust-streaming", "numpy", "pydantic", "rich", "structlog"),
    *("opentelemetry-sdk", "typer", "redis", "orjson"),
}
_PUBLISH: Final = """
import sys
from coplace.v1.jobs_pb2 import JobCancelled
from coplace_client.facts import fact
from coplace_client.ingest import publish
class Plain:
    grpc_ca_file = grpc_cert_file = grpc_key_file = grpc_token_file = None
publish(sys.argv[1], Plain(), fact("north/alpha", JobCancelled(job_id="j"), "j/1", 1_800_000_000))
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def agent(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment.of(tmp_path_factory.mktemp("agent"), wheels, "coplace-agent")


def test_each_wheel_names_the_licence_and_carries_it(wheels: Path) -> None:
    built = [*wheels.glob("*.whl")]
    assert len(built) == 3
    for wheel in built:
        with zipfile.ZipFile(wheel) as files:
            [metadata] = [name for name in files.namelist() if name.endswith("/METADATA")]
            assert b"License-Expression: Apache-2.0\n" in files.read(metadata)
            [licence] = [name for name in files.namelist() if name.endswith("/LICENSE")]
            assert b"SPDX-License-Identifier: Apache-2.0" in files.read(licence)


@pytest.mark.thorough
def test_the_core_compiles_with_what_its_build_requires_alone(tmp_path: Path) -> None:
    compile_core_in_isolation(tmp_path)


def test_the_client_needs_grpc_and_protobuf_alone_and_is_taken_by_ingest(
    wheels: Path, tmp_path: Path
) -> None:
    client = Environment.of(tmp_path / "client", wheels, "coplace-client")
    assert client.packages() == ["grpcio", "protobuf", "typing-extensions"]
    ingest = Ingest()
    with served(ingest) as port:
        done = client.run(client.python, "-c", _PUBLISH, f"127.0.0.1:{port}")
    assert done.returncode == 0, done.stderr
    assert [event.job_cancelled.job_id for event in ingest.got] == ["j"]


def test_the_agent_brings_no_client_of_kafka_no_core_and_little_else(agent: Environment) -> None:
    assert not _FOREIGN_TO_AGENTS & {*agent.packages()}
    assert not [*agent.folder.rglob("shared")]
    assert not [*agent.folder.rglob("services")]
    assert agent.size_mib() <= _MOST_MIB


def test_the_agent_and_its_watchdog_start_and_stay_small(
    agent: Environment, tmp_path: Path
) -> None:
    with served(Ingest()) as port, _running_agent(agent, tmp_path, port) as process:
        watchdog = _child(process.pid)
        time.sleep(1.0)
        together_mib = resident_mib(process.pid) + resident_mib(watchdog)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert together_mib <= _MOST_MIB


def test_a_job_is_attached_by_the_command_of_the_agent(agent: Environment, tmp_path: Path) -> None:
    command, folder = agent.command("coplace-agent"), {"COPLACE_AGENT_RUN_DIR": str(tmp_path)}
    done = agent.run(command, "attach", "north/alpha/1/1", "--pid", str(os.getpid()), **folder)
    assert (done.stdout, done.stderr) == ("attached north/alpha/1/1/1\n", "")
    assert "north/alpha/1/1" in agent.run(command, "jobs", **folder).stdout


def test_the_command_alone_reports_all_verbs_and_what_some_of_them_need(
    wheels: Path, tmp_path: Path
) -> None:
    alone = Environment.of(tmp_path / "alone", wheels, "coplace")
    coplace = alone.command("coplace")
    told = alone.run(coplace, "--help")
    assert told.returncode == 0, told.stderr
    assert "simulate" in told.stdout
    assert alone.run(coplace, "topics", "list").returncode == 0
    missing = alone.run(coplace, "demo", "--jobs", "1")
    assert missing.returncode == 1
    assert "coplace[lab]" in missing.stderr


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_an_extra_is_for_starts_with_that_extra_alone(
    wheels: Path, tmp_path: Path, extra: str
) -> None:
    environment = Environment.of(tmp_path / extra, wheels, f"coplace[{extra}]")
    for module in _SERVICES.get(extra, ()):
        _require_it_waits_for_its_servers(environment, module)
    if extra == "mcp":
        _require_an_assistant_is_answered(environment)
    if extra == "prediction":
        _require_charges_add_up(environment)
    if extra == "lab":
        out = tmp_path / "out"
        played = environment.run(
            environment.command("coplace"), "demo", "--jobs", "20", "--out", str(out)
        )
        assert played.returncode == 0, played.stderr
        assert (out / "gantt.png").exists()


def _require_an_assistant_is_answered(environment: Environment) -> None:
    """By its first message, after which it hangs up."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    done = subprocess.run(
        [environment.command("coplace"), "mcp"],
        cwd=environment.folder,
        env={"PATH": os.environ["PATH"]},
        input=f"{json.dumps(message)}\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["result"]["serverInfo"]["name"] == "coplace"


def _require_charges_add_up(environment: Environment) -> None:
    """By an example of people that test against Coplace and installed nothing else."""
    example = programs(HOW_TO / "test-against-coplace.md")["test_charges.py"]
    call = f"{example}\ntest_charges_add_up()\n"
    done = environment.run(environment.python, "-c", call)
    assert done.returncode == 0, done.stderr


def _require_it_waits_for_its_servers(environment: Environment, module: str) -> None:
    """Without Kafka a service is up, says what it waits for, and ends when it is asked to."""
    with subprocess.Popen(
        [environment.python, "-m", module],
        cwd=environment.folder,
        env={"PATH": os.environ["PATH"], "COPLACE_KAFKA_BOOTSTRAP": "127.0.0.1:1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = ""
        try:
            for line in process.stdout:
                said += line
                if "serving health" in line or "waiting_for" in line:
                    break
            else:
                pytest.fail(f"{module} ended:\n{said}")
        finally:
            process.send_signal(signal.SIGTERM)
            process.stdout.close()
            process.wait(PATIENCE_S)


@contextmanager
def _running_agent(
    agent: Environment, folder: Path, port: int
) -> Iterator[subprocess.Popen[bytes]]:
    own = {
        "COPLACE_AGENT_INGEST_ADDRESS": f"127.0.0.1:{port}",
        "COPLACE_AGENT_RUN_DIR": str(folder / "run"),
        "COPLACE_AGENT_SPOOL_DIR": str(folder / "spool"),
    }
    command: list[str | Path] = [agent.command("coplace-agent"), "run"]
    with subprocess.Popen(command, env={"PATH": os.environ["PATH"], **own}) as process:
        try:
            yield process
        finally:
            process.kill()


def _child(pid: int) -> int:
    """The first child of a process, once it is there."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    until_s = time.monotonic() + PATIENCE_S
    while not (found := children.read_text(encoding="ascii").split()):
        assert time.monotonic() < until_s, "the agent has no watchdog"
        time.sleep(0.05)
    return int(found[0])

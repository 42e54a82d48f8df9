"""The demo as people run it, on real Kafka and Redis."""

import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import JOBS
from tests.support.processes import gone

COPLACE = str(Path(sys.executable).with_name("coplace"))
RUN_WITHIN_S = 400.0


@dataclass(frozen=True)
class Played:
    """A command that has ended, and every process that it started."""

    exit_code: int
    said: str
    processes: list[psutil.Process]
    run_dir: Path


def _command(name: str, out: Path, run_dir: Path, *options: str) -> list[str]:
    common = [f"--jobs={JOBS}", f"--out={out}", f"--run-dir={run_dir}"]
    return [COPLACE, name, *common, *options]


def _descendants(command: subprocess.Popen[str]) -> list[psutil.Process]:
    """Every process below a command that runs."""
    return psutil.Process(command.pid).children(recursive=True)


@pytest.fixture(scope="module", params=["priority-inc-v", "look-ahead"])
def parity(
    own_servers: None, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Played]:
    """Both demos, with two workers for each stateful service, without and with a planner."""
    folder = tmp_path_factory.mktemp("parity")
    options = "--workers=2", f"--policy={request.param}"
    command = _command("demo-parity", folder / "out", folder / "run", *options)
    seen: dict[int, psutil.Process] = {}
    with (folder / "said").open("w+") as said:
        running = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, text=True)
        deadline_s = time.monotonic() + RUN_WITHIN_S
        while running.poll() is None and time.monotonic() < deadline_s:
            seen |= {process.pid: process for process in _descendants(running)}
            time.sleep(0.2)
        running.kill()
        said.seek(0)
        yield Played(running.wait(), said.read(), list(seen.values()), folder / "run")


@pytest.mark.thorough
def test_two_workers_for_each_stateful_service_decide_and_charge_what_the_embedded_run_does(
    parity: Played,
) -> None:
    assert parity.exit_code == 0, parity.said
    assert "both runs decided and charged the same" in parity.said


@pytest.mark.thorough
def test_a_demo_leaves_no_process_behind(parity: Played) -> None:
    # Two servers, supervisord, ingest, the emulator, and two workers for each of five services.
    assert len(parity.processes) >= 15
    assert gone(parity.processes, within_s=1.0)


@pytest.mark.thorough
def test_the_trace_of_a_job_and_its_signature_spans_the_processes(parity: Played) -> None:
    assert parity.exit_code == 0, parity.said
    services: dict[str, set[str]] = defaultdict(set)
    for file in (parity.run_dir / "traces").glob("*.jsonl"):
        for line in file.read_text().splitlines():
            span = json.loads(line)
            trace_id = span["context"]["trace_id"]
            services[trace_id].add(span["resource"]["attributes"]["service.name"])
    assert len(services) == JOBS
    spanned = {"simulation", "ingest", "placement", "pricing", "energy"}
    assert all(found >= spanned for found in services.values())


@pytest.mark.usefixtures("own_servers")
def test_a_demo_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    command = _command("demo", tmp_path / "out", run_dir, "--kafka")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, text=True) as running:
        _wait_for(run_dir / "log" / "simulation.log")
        started = _descendants(running)
        running.kill()
    assert len(started) >= 7  # Kafka, Redis, four processes of services, the emulator
    assert gone(started, within_s=60.0)


def _wait_for(file: Path) -> None:
    deadline_s = time.monotonic() + RUN_WITHIN_S
    while not (file.exists() and file.stat().st_size):
        assert time.monotonic() < deadline_s, f"{file} does not come"
        time.sleep(0.1)

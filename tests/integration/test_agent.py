"""The node agent as a process, beside real jobs and an ingest that holds it to the schemas."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.telemetry_pb2 import PROGRESS_SOURCE_HEARTBEATS, ShuttersMeasured

from coplace_agent.adapters.jobs import JobFile, JobFolder
from services.ingest.model import Intake
from shared.catalogue.topics import Topics
from tests.chaos.agent_kills import require_disjoint, run
from tests.support.agent import job, none_stops, pids_of
from tests.support.agent_ingest import Ingest, served
from tests.support.patience import PATIENCE_S


@contextmanager
def _agent(folder: Path, port: int, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    own = {
        "INGEST_ADDRESS": f"127.0.0.1:{port}",
        "SOURCE": "north/alpha/n1",
        "NODE_MODEL": "skylake",
        "RUN_DIR": str(folder / "run"),
        "SPOOL_DIR": str(folder / "spool"),
        "PERIOD_S": "0.005",
        "OVERHEAD": "0.3",
        "STANDSTILL_S": "0.05",
        "INTERVAL_S": "0.3",
        "LOOK_S": "0.05",
        **settings,
    }
    environment = {f"COPLACE_AGENT_{name}": value for name, value in own.items()}
    command = [sys.executable, "-m", "coplace_agent", "run"]
    with subprocess.Popen(command, env={**os.environ, **environment}) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def _jobs(folder: Path, count: int) -> Iterator[list[int]]:
    with ExitStack() as stack:
        pids = []
        for number in range(count):
            beats = folder / f"beats-{number}"
            first = stack.enter_context(job(heartbeats=beats, rest_s=0.0002))
            file = JobFile(job_id=f"north/alpha/{number}/1", pid=first, heartbeats=beats, cores=1)
            JobFolder(folder / "run" / "jobs").attach(file)
            pids += pids_of(first)
        yield pids


def _told(ingest: Ingest) -> list[ShuttersMeasured]:
    """What was published, copies once, as the real ingest would take it."""
    intake = Intake(Topics())
    events = {event.id: event for event in list(ingest.got)}
    for event in events.values():
        intake.accept(event, time.time())
    return [event.shutters_measured for event in events.values()]


def _await(condition: Callable[[], object]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s, "nothing came of it in time"
        time.sleep(0.02)


def test_what_an_agent_measures_of_three_jobs_is_taken_by_ingest(tmp_path: Path) -> None:
    ingest = Ingest()
    with served(ingest) as port, _jobs(tmp_path, 3) as pids, _agent(tmp_path, port) as agent:
        _await(lambda: len({each.job_id for each in _told(ingest)}) == 3)
        agent.terminate()
        assert agent.wait(PATIENCE_S) == 0
        assert none_stops(pids)
    told = _told(ingest)
    require_disjoint(told)
    for each in told:
        assert each.co_runners == 2
        assert each.co_runner_job_id != each.job_id
        assert each.progress_source == PROGRESS_SOURCE_HEARTBEATS
        assert each.node_model == "skylake"


@pytest.mark.thorough
def test_killed_again_and_again_and_cut_off_it_loses_nothing_that_it_spooled(
    tmp_path: Path,
) -> None:
    ingest, spooled = Ingest(), set[str]()
    with _jobs(tmp_path, 2) as pids:
        for _ in range(3):
            with _agent(tmp_path, 1) as agent:  # nobody is there
                _await(lambda: _spooled(tmp_path) - spooled)
                agent.send_signal(signal.SIGKILL)
                agent.wait()
                assert none_stops(pids)
            spooled.update(_spooled(tmp_path))
        with served(ingest) as port, _agent(tmp_path, port):
            _await(lambda: spooled <= {event.id for event in list(ingest.got)})
    require_disjoint(_told(ingest))


def _spooled(folder: Path) -> set[str]:
    files = (folder / "spool").glob("*.event")
    return {Envelope.FromString(path.read_bytes()).id for path in files}


def test_a_job_alone_is_never_paused(tmp_path: Path) -> None:
    ingest = Ingest()
    with served(ingest) as port, _jobs(tmp_path, 1), _agent(tmp_path, port) as agent:
        _await((tmp_path / "run" / "paused").exists)
        time.sleep(0.3)
        agent.terminate()
        assert agent.wait(PATIENCE_S) == 0
    assert not ingest.got


def test_an_agent_without_its_folders_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with _agent(tmp_path, 1, RUN_DIR=str(tmp_path / "file")) as agent:
        assert agent.wait(PATIENCE_S) == 1


@pytest.mark.long
def test_agents_killed_at_random_points_leave_nobody_stopped_and_count_no_shutter_twice(
    tmp_path: Path,
) -> None:
    outcome = run(kills=40, seed=1, folder=tmp_path)
    assert outcome.kills == 40
    assert outcome.while_paused
    assert outcome.shutters

"""`coplace up --sample` on real servers, beside a process that is killed as it starts."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from deploy.local.errors import LocalServersError
from deploy.local.servers import LocalServers
from tests.support.reader import Reader

pytestmark = pytest.mark.rest
_SEEN_S = 1.0


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Has a folder and an installation of its own."""
    found = Reader(tmp_path_factory.mktemp("reader"))
    yield found
    found.paste("coplace down --delete")


@pytest.fixture(scope="module")
def shown(reader: Reader) -> str:
    """What the start printed, during which the process of pricing was killed once."""
    start = subprocess.Popen(
        ["coplace", "up", "--sample"],
        env={**reader.environment, "COPLACE_PRICING_GRACE_S": "5"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with start:
        kill_once(LocalServers(reader.installation.folder), "background", start)
        printed, _ = start.communicate(timeout=240)
    assert start.returncode == 0, printed
    return printed


def kill_once(servers: LocalServers, name: str, start: "subprocess.Popen[str]") -> None:
    """Kill a process once it runs and the start has seen it, seconds before it can be ready."""
    while start.poll() is None:
        with suppress(LocalServersError):
            if servers.pid(name):
                time.sleep(_SEEN_S)
                servers.kill(name, signal.SIGKILL)
                return
        time.sleep(0.05)


def test_a_process_that_is_killed_as_it_starts_is_waited_for(shown: str) -> None:
    assert re.search(r"^background: ended once$", shown, re.MULTILINE)
    assert re.search(r"^background: ready$", shown, re.MULTILINE)
    assert re.search(r"^7 processes ready in \d+ s$", shown, re.MULTILINE)


@pytest.mark.usefixtures("shown")
def test_jobs_run_wait_and_have_ended(reader: Reader) -> None:
    # The last is submitted six seconds behind the start, and waits for hours.
    deadline_s = time.monotonic() + 60
    while not (waiting := re.search(r"demo/p1/10/\d+", queue := _pasted(reader, "queue p1"))):
        assert time.monotonic() < deadline_s, queue
        time.sleep(0.5)
    jobs = _pasted(reader, "jobs")
    for state in ("running", "finished", "reserved|queued|waiting|pending"):
        assert re.search(rf"\| (?:{state}) ", jobs), jobs
    assert re.search(rf"\| {waiting[0]} +\| (?:reserved|queued|waiting|pending) ", jobs), jobs
    why = _pasted(reader, f"why {waiting[0]}")
    assert "waits" in why or "reserved" in why


def _pasted(reader: Reader, command: str) -> str:
    return reader.paste(f"coplace {command}").stdout


@pytest.mark.usefixtures("shown")
def test_what_ended_has_a_bill(reader: Reader) -> None:
    deadline_s = time.monotonic() + 90
    while "demo/p1/1/" not in (bill := reader.paste("coplace statement physics").stdout):
        assert time.monotonic() < deadline_s, bill
        time.sleep(1)

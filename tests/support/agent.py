"""Jobs for the node agent to pause, and what became of them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from coplace_agent.adapters.processes import ProcessTree
from tests.support.processes import gone

# Forks children that count heartbeats until they are ended; the first process sleeps.
_JOB: Final = """
import os, sys, time
from coplace_client.heartbeats.coplace_heartbeat import Heartbeat
for slot in range(int(sys.argv[1])):
    if os.fork() == 0:
        beats = Heartbeat(slot)
        while True:
            beats.beat()
            time.sleep(float(sys.argv[2]))
print(flush=True)
time.sleep(10_000)
"""


@contextmanager
def job(children: int = 2, heartbeats: Path | None = None, rest_s: float = 0.001) -> Iterator[int]:
    """A job of some processes that count; gives the id of the first. All are ended behind it."""
    command = [sys.executable, "-c", _JOB, str(children), str(rest_s)]
    environment = {**os.environ, "COPLACE_HEARTBEATS": str(heartbeats or "")}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def states(pids: Sequence[int]) -> set[str]:
    """In which states of /proc they are: T is stopped."""
    stats = (Path(f"/proc/{pid}/stat").read_bytes() for pid in pids)
    return {stat.rpartition(b")")[2].split()[0].decode() for stat in stats}


def stop(pid: int) -> None:
    """Stop a process as a resource manager does that suspends a job; returns when it is stopped."""
    os.kill(pid, signal.SIGSTOP)
    while states([pid]) != {"T"}:
        time.sleep(0.001)


def pids_of(first: int) -> list[int]:
    """The processes of a job."""
    return ProcessTree(first).pids()


def none_stops(pids: Sequence[int], within_s: float = 5.0) -> bool:
    """Whether all run or sleep, or do in time, and go on doing so."""
    until_s = time.monotonic() + within_s
    while states(pids) & {"T", "t"}:
        if time.monotonic() > until_s:
            return False
        time.sleep(0.005)
    return True


def await_end(pids: Sequence[int]) -> None:
    """Return when none of the processes runs any more: a kill is on its way for some time."""
    found = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    assert gone(found, within_s=10)

"""What is paused goes on: after the block, after a failure, after an agent that was killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from coplace_agent.adapters.pausing import Pauser
from coplace_agent.adapters.processes import NotAJobError, ProcessTree, require_separate
from coplace_agent.adapters.watchdog import Watchdog, WatchdogLostError
from coplace_agent.watchdog import PROCESS, release, started_ticks
from tests.support.agent import job, none_stops, pids_of, states, stop

_KILLED: Final = -signal.SIGKILL


@pytest.fixture
def watchdog(tmp_path: Path) -> Iterator[Watchdog]:
    found = Watchdog(tmp_path / "paused", 5.0)
    yield found
    found.close()


@pytest.fixture
def pauser(watchdog: Watchdog) -> Pauser:
    return Pauser(watchdog, 1.0)


def test_all_processes_of_a_job_stop_for_a_block_and_no_longer(pauser: Pauser) -> None:
    with job(children=3) as first:
        pids = pids_of(first)
        assert len(pids) == 4
        with pauser.paused([ProcessTree(first)]) as stand_still:
            assert stand_still()
            assert states(pids) == {"T"}
        assert none_stops(pids)


def test_a_failure_while_jobs_are_paused_continues_them(pauser: Pauser) -> None:
    with job() as first:
        with pytest.raises(ZeroDivisionError), pauser.paused([ProcessTree(first)]):
            print(1 / 0)
        assert none_stops(pids_of(first))


def test_what_somebody_else_stopped_stays_stopped(pauser: Pauser) -> None:
    with job() as first:
        *others, last = pids_of(first)
        stop(last)
        with pauser.paused([ProcessTree(first)]) as stand_still:
            assert stand_still()
        assert none_stops(others)
        assert states([last]) == {"T"}


def test_a_job_that_somebody_continued_was_not_paused(pauser: Pauser) -> None:
    with job() as first, pauser.paused([ProcessTree(first)]) as stand_still:
        os.kill(first, signal.SIGCONT)
        assert not stand_still()


def test_children_that_are_born_while_their_parents_are_stopped_stop_too(
    pauser: Pauser,
) -> None:
    forking = "import os\nwhile True:\n  if os.fork() == 0: os._exit(0)\n  os.wait()"
    with subprocess.Popen([sys.executable, "-c", forking]) as process:
        try:
            for _ in range(50):
                with pauser.paused([ProcessTree(process.pid)]) as stand_still:
                    assert stand_still()
                    assert states([process.pid]) == {"T"}
        finally:
            process.kill()


def test_a_process_whose_parent_ended_is_still_one_of_the_job(pauser: Pauser) -> None:
    with job() as first:
        tree = ProcessTree(first)
        pids = tree.pids()
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)
        assert sorted(tree.pids()) == sorted(pids[1:])
        assert not tree.is_over
        with pauser.paused([tree]):
            assert states(pids[1:]) == {"T"}
        for pid in pids[1:]:
            os.kill(pid, signal.SIGKILL)
        assert _ends(tree)


def _ends(tree: ProcessTree) -> bool:
    until_s = time.monotonic() + 5
    while not tree.is_over:
        if time.monotonic() > until_s:
            return False
        time.sleep(0.01)
    return True


def test_who_is_in_a_job_does_not_pause_it() -> None:
    with pytest.raises(NotAJobError, match="the agent"):
        require_separate(ProcessTree(os.getppid()), {os.getpid()}, "the agent")
    with pytest.raises(NotAJobError, match="does not run"):
        ProcessTree(2**22 + 1)
    with pytest.raises(NotAJobError, match="another by now"):
        ProcessTree(os.getpid(), started=1)


def test_nothing_is_paused_without_a_watchdog(watchdog: Watchdog, pauser: Pauser) -> None:
    os.kill(watchdog.pid, signal.SIGKILL)
    with job() as first:
        with pytest.raises(WatchdogLostError), pauser.paused([ProcessTree(first)]):
            raise AssertionError("it was paused")
        assert none_stops(pids_of(first), within_s=0)


def test_nothing_is_paused_while_the_watchdog_does_not_answer(tmp_path: Path) -> None:
    watchdog = Watchdog(tmp_path / "paused", 0.2)
    os.kill(watchdog.pid, signal.SIGSTOP)
    with job() as first:
        with (
            pytest.raises(WatchdogLostError),
            Pauser(watchdog, 1.0).paused([ProcessTree(first)]),
        ):
            raise AssertionError("it was paused")
        assert none_stops(pids_of(first), within_s=0)
    os.kill(watchdog.pid, signal.SIGCONT)
    watchdog.close()


def test_an_agent_that_hangs_holds_nobody_for_long(tmp_path: Path) -> None:
    watchdog = Watchdog(tmp_path / "paused", 0.2)
    with job() as first, Pauser(watchdog, 1.0).paused([ProcessTree(first)]) as stand_still:
        assert states(pids_of(first)) == {"T"}
        assert none_stops(pids_of(first), within_s=5)
        assert not stand_still()
    watchdog.close()


def test_polite_signals_do_not_end_the_watchdog_before_its_agent(
    watchdog: Watchdog, pauser: Pauser
) -> None:
    for asked in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(watchdog.pid, asked)
    with job() as first, pauser.paused([ProcessTree(first)]) as stand_still:
        assert stand_still()


def test_what_is_in_the_file_is_continued_by_the_next(tmp_path: Path) -> None:
    with job() as first:
        for pid in pids_of(first):
            stop(pid)
        lines = [f'[["{PROCESS}",{pid},{started_ticks(pid)}]]\n' for pid in pids_of(first)]
        cut_short = '[["process",1'
        (tmp_path / "paused").write_text("".join(lines) + cut_short)
        Watchdog(tmp_path / "paused", 1.0).close()
        assert none_stops(pids_of(first))
        assert not (tmp_path / "paused").read_bytes()


def test_another_process_of_the_same_id_is_not_touched(tmp_path: Path) -> None:
    with job() as first:
        stop(first)
        (tmp_path / "paused").write_text(f'[["{PROCESS}",{first},1]]\n')
        with (tmp_path / "paused").open("a+b") as file:
            release(file)
        assert states([first]) == {"T"}


# An agent that shutters its job once and is killed at its n-th call of those that matter, before
# it or behind it.
_AGENT: Final = """
import os, signal, socket, sys
from pathlib import Path
from coplace_agent.adapters import pausing, watchdog
from coplace_agent.adapters.pausing import Pauser
from coplace_agent.adapters.processes import ProcessTree
from coplace_agent.adapters.watchdog import Watchdog

file, first, at, behind = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "behind"
calls = 0

def deadly(function):
    def call(*given, **named):
        global calls
        calls += 1
        if calls == at and not behind:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*given, **named)
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call

watchdog = Watchdog(Path(file), 60.0)
signal.pidfd_send_signal = deadly(signal.pidfd_send_signal)
os.pidfd_open = deadly(os.pidfd_open)
os.write = deadly(os.write)
Watchdog._send = deadly(Watchdog._send)
Watchdog._await_answer = deadly(Watchdog._await_answer)
pausing.stands_still = deadly(pausing.stands_still)
with Pauser(watchdog, 1.0).paused([ProcessTree(first)]) as stand_still:
    assert stand_still()
print("whole", calls)
"""


def _shuttered(file: Path, first: int, at: int, where: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _AGENT, str(file), str(first), str(at), where]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("where", ["before", "behind"])
def test_killed_at_every_point_of_a_shutter_the_agent_leaves_nobody_stopped(
    tmp_path: Path, where: str
) -> None:
    with job(children=1) as first:
        pids, at = pids_of(first), 0
        while True:
            at += 1
            result = _shuttered(tmp_path / "paused", first, at, where)
            assert none_stops(pids), f"left stopped by a kill {where} call {at}"
            if result.returncode == 0:
                break
            assert result.returncode == _KILLED, result.stderr
        assert at > 12, result.stdout


@pytest.mark.parametrize("first_at", [1, 2])
def test_of_an_agent_and_a_watchdog_killed_at_once_the_next_continues_the_jobs(
    tmp_path: Path, first_at: int
) -> None:
    both = _AGENT.replace(
        "os.kill(os.getpid(), signal.SIGKILL)",
        "(os.kill(watchdog.pid, signal.SIGKILL), os.kill(os.getpid(), signal.SIGKILL))",
    )
    with job(children=1) as first:
        pids, was_stopped = pids_of(first), 0
        for at in range(first_at, 60, 2):
            command = [
                sys.executable,
                "-c",
                both,
                str(tmp_path / "paused"),
                str(first),
                str(at),
                "before",
            ]
            result = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=60
            )
            was_stopped += "T" in states(pids)
            Watchdog(tmp_path / "paused", 1.0).close()
            assert none_stops(pids), f"left stopped by a kill of both before call {at}"
            if result.returncode == 0:
                break
        assert result.returncode == 0
        assert was_stopped

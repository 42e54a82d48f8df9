"""Progress that applications count, and what the kernel's counters say."""

import os
import shutil
import struct
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest

from coplace_agent.adapters.counters import CounterKind, NoCounterError, scaled
from coplace_agent.adapters.progress import Counters, Heartbeats
from coplace_agent.model import rate
from coplace_client import heartbeats as client
from coplace_client.heartbeats.coplace_heartbeat import Heartbeat
from tests.support.agent import job, pids_of

# Counters of the kernel itself, which every machine has: time on a processor, and context switches.
_SOFTWARE: Final = 1
_TASK_CLOCK: Final = CounterKind(_SOFTWARE, 1)
_CPU_CLOCK: Final = CounterKind(_SOFTWARE, 0)

_C_PROGRAM: Final = """
#include <stdlib.h>
#include "coplace_heartbeat.h"
int main(void) {
    coplace_heartbeat *beats = coplace_heartbeat_open(getenv("COPLACE_HEARTBEATS"));
    coplace_beat(beats, 0, 40);
    coplace_beat(beats, 1, 2);
    return 0;
}
"""


def test_heartbeats_of_all_slots_add_up(tmp_path: Path) -> None:
    path = tmp_path / "beats"
    beats = [Heartbeat(slot, str(path)) for slot in (0, 1, 62)]
    progress = Heartbeats(path)
    before = progress.read()
    for each in beats:
        each.beat()
    beats[0].beat(4)
    assert progress.read().progress - before.progress == 7
    progress.close()


def test_heartbeats_of_a_restarted_application_go_on(tmp_path: Path) -> None:
    Heartbeat(0, str(tmp_path / "beats")).beat(5)
    Heartbeat(0, str(tmp_path / "beats")).beat(2)
    assert Heartbeats(tmp_path / "beats").read().progress == 7


def test_without_a_file_beats_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COPLACE_HEARTBEATS", raising=False)
    Heartbeat().beat()


@pytest.mark.skipif(
    shutil.which("gcc") is None and os.environ.get("CI") != "true", reason="there is no C compiler"
)
def test_programs_in_c_count_in_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(_C_PROGRAM)
    include = str(Path(client.__file__).parent)
    command = ["gcc", "-Wall", "-Werror", "-I", include, "program.c", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    path = tmp_path / "beats"
    subprocess.run([tmp_path / "program"], env={"COPLACE_HEARTBEATS": str(path)}, check=True)
    subprocess.run([tmp_path / "program"], env={}, check=True)
    Heartbeat(5, str(path)).beat()
    assert Heartbeats(path).read().progress == 43


def test_what_is_no_file_of_heartbeats_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "link").symlink_to(tmp_path / "text")
    os.mkfifo(tmp_path / "pipe")
    for name in ("text", "link", "pipe", "nothing", "."):
        with pytest.raises(NoCounterError):
            Heartbeats(tmp_path / name)


def test_a_file_that_its_owner_cuts_short_shows_nothing_and_kills_nobody(tmp_path: Path) -> None:
    path = tmp_path / "beats"
    Heartbeat(0, str(path)).beat(10)
    progress = Heartbeats(path)
    before = progress.read()
    os.truncate(path, 0)
    assert rate(before, progress.read()) < 0


# Reads of a counter in the layout of perf_event_open(2), value, then time_enabled and time_running
# in ns: alone on its counter, sharing it half of the time, and never scheduled.
@pytest.mark.parametrize(
    ("read", "value"),
    [
        ("80b2e60e00000000 40420f0000000000 40420f0000000000", 250_000_000.0),
        ("80b2e60e00000000 40420f0000000000 20a1070000000000", 500_000_000.0),
        ("0000000000000000 40420f0000000000 0000000000000000", 0.0),
    ],
)
def test_counters_that_took_turns_are_scaled(read: str, value: float) -> None:
    assert scaled(bytes.fromhex(read.replace(" ", ""))) == value


def _counters() -> Counters:
    try:
        return Counters(_TASK_CLOCK, _CPU_CLOCK)
    except NoCounterError as error:
        pytest.skip(str(error))


def test_counters_follow_all_threads_of_a_job_and_those_that_have_ended(tmp_path: Path) -> None:
    progress = _counters()
    with job(children=2) as first:
        progress.follow(pids_of(first))
        begin = progress.read()
        time.sleep(0.1)
        middle = progress.read()
        assert middle.progress > begin.progress
    progress.follow([])
    assert progress.read().progress >= middle.progress
    progress.close()


def test_a_machine_without_counters_says_so() -> None:
    with pytest.raises(NoCounterError, match="no counter of the processor"):
        Counters(CounterKind(2**20, 0), CounterKind(2**20, 0))


def test_the_header_and_the_library_lay_out_the_same_bytes(tmp_path: Path) -> None:
    Heartbeat(2, str(tmp_path / "beats")).beat(9)
    data = (tmp_path / "beats").read_bytes()
    assert data[:8] == b"COPLACE1"
    assert struct.unpack_from("<Q", data, 64 * 3) == (9,)

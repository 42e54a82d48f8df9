"""Runs of real programs: alone, beside one that is restarted, and such as fail."""

import os
import time
from pathlib import Path

import psutil
import pytest

from cli.profile.campaign import ALONE, Campaign, ProfiledRun
from cli.profile.counters import schema
from cli.profile.running import Bench, ProgramFailedError, TimedRun
from tests.support.processes import gone


def bench(most_s: float = 60, events: tuple[str, ...] = (), **commands: str) -> Bench:
    places = {"here": {"primary": [0], "beside": [0]}}
    given = {"applications": commands, "placements": places, "most_s": most_s}
    return Bench(Campaign.model_validate(given), schema(), events)


def ran(bench: Bench, primary: str, beside: str = ALONE) -> TimedRun:
    return bench.measured(ProfiledRun("here", 0, primary, beside))


def test_what_runs_beside_is_restarted_until_the_measured_one_ends() -> None:
    found = ran(bench(nap="sleep 1", short="true"), "nap", "short")
    assert found.restarts > 2
    assert not found.features


def test_what_runs_beside_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    loop = f"sh -c 'sleep 1000 & echo $! >> {pids}; wait'"
    ran(bench(nap="sleep 0.3", loop=loop), "nap", "loop")
    left = [psutil.Process(pid) for pid in map(int, pids.read_text().split()) if _lives(pid)]
    assert gone(left, 10)


def _lives(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_run_alone_has_its_time_what_was_counted_and_its_core(tmp_path: Path) -> None:
    told = tmp_path / "told"
    look = f"sh -c 'sleep 0.1; grep Cpus_allowed_list /proc/self/status > {told}'"
    found = ran(bench(look=look), "look")
    assert 0.1 <= found.run_s < 5
    assert found.restarts == 0
    assert found.features["peak_rss_kib"] > 0
    assert found.features["user_s"] < 1
    assert told.read_text().split() == ["Cpus_allowed_list:", "0"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("no-such-program", "bad ended with 127: .*no-such-program"),
        ("sh -c 'echo it is full >&2; exit 3'", "bad ended with 3: it is full"),
        ("sh -c 'kill -9 $$'", "bad ended with -9"),
    ],
)
def test_a_program_that_fails_is_named_with_its_last_words(command: str, told: str) -> None:
    with pytest.raises(ProgramFailedError, match=told):
        ran(bench(bad=command), "bad")
    with pytest.raises(ProgramFailedError, match=told):
        ran(bench(bad=command, nap="sleep 1"), "nap", "bad")


def test_a_program_that_never_ends_is_ended_and_named() -> None:
    began_s = time.monotonic()
    words = ["sleep", f"1000.{os.getpid()}"]  # nobody else's
    with pytest.raises(ProgramFailedError, match="long ran for 0 s: give it less, or raise most_s"):
        ran(bench(most_s=0.3, long=" ".join(words)), "long")
    assert time.monotonic() - began_s < 30
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == words]


def test_perf_counts_what_runs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A perf that runs the command and writes what was recorded of one that counts."""
    perf = tmp_path / "perf"
    perf.write_text(
        '#!/bin/sh\nfile="$5"\nwhile [ "$1" != -- ]; do shift; done\nshift\n"$@"\n'
        'echo "1000;;instructions:u;1;100.00;;" > "$file"\n'
    )
    perf.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = ran(bench(events=("instructions",), nap="sleep 0.1"), "nap")
    assert found.features["instructions"] == pytest.approx(1000 / found.run_s)

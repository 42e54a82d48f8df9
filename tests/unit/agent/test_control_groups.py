"""Jobs that are control groups, on machines that let us make some."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from coplace_agent.adapters.pausing import Pauser
from coplace_agent.adapters.processes import ControlGroup, NotAJobError
from coplace_agent.adapters.watchdog import Watchdog
from coplace_agent.watchdog import resume
from tests.support.agent import job, pids_of


def _root() -> Path | None:
    """Where control groups of version 2 are."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2" and os.access(place, os.W_OK):
            return Path(place)
    return None


@pytest.fixture
def group() -> Iterator[Path]:
    root = _root()
    found = root / f"coplace-{uuid4().hex}" if root else None
    try:
        if found is None:
            pytest.skip("no control groups of version 2 that we may write to")
        with suppress(PermissionError, OSError):
            found.mkdir()
        if not (found / "cgroup.freeze").exists():
            pytest.skip("control groups cannot be made here")
        with job(children=1) as first:
            for pid in pids_of(first):
                (found / "cgroup.procs").write_text(str(pid))
            yield found
            resume([("cgroup", str(found), 0)])
    finally:
        if found is not None and found.exists():
            _removed(found)


def _removed(group: Path) -> None:
    for _ in range(10_000):
        if "populated 0" in (group / "cgroup.events").read_text():
            group.rmdir()
            return
    raise AssertionError(f"{group} is not empty")


def _is_frozen(group: Path) -> bool:
    return "frozen 1" in (group / "cgroup.events").read_text()


def test_a_group_is_frozen_for_a_block_and_no_longer(tmp_path: Path, group: Path) -> None:
    watchdog = Watchdog(tmp_path / "paused", 5.0)
    with Pauser(watchdog, 1.0).paused([ControlGroup(group)]) as stand_still:
        assert stand_still()
        assert _is_frozen(group)
    assert (group / "cgroup.freeze").read_text().strip() == "0"
    watchdog.close()


def test_a_group_that_an_agent_left_frozen_is_thawed_by_the_watchdog(
    tmp_path: Path, group: Path
) -> None:
    watchdog = Watchdog(tmp_path / "paused", 60.0)
    watchdog.announce([("cgroup", str(group), 0)])
    (group / "cgroup.freeze").write_text("1")
    watchdog.close()  # as when the agent is killed: its side of the socket closes
    assert (group / "cgroup.freeze").read_text().strip() == "0"


def test_a_group_that_somebody_else_froze_stays_frozen(tmp_path: Path, group: Path) -> None:
    (group / "cgroup.freeze").write_text("1")
    watchdog = Watchdog(tmp_path / "paused", 5.0)
    with Pauser(watchdog, 1.0).paused([ControlGroup(group)]):
        pass
    watchdog.close()
    assert (group / "cgroup.freeze").read_text().strip() == "1"


def test_a_group_is_over_when_nobody_is_in_it(group: Path) -> None:
    found = ControlGroup(group)
    assert found.pids()
    assert not found.is_over
    for pid in found.pids():
        os.kill(pid, signal.SIGKILL)
    while found.pids():
        pass
    assert ControlGroup(group).is_over


def test_what_is_no_control_group_is_no_job(tmp_path: Path) -> None:
    with pytest.raises(NotAJobError, match="not a control group"):
        ControlGroup(tmp_path)

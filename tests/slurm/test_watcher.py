"""The watcher finds what it is to find, and nothing else."""

import time

import pytest

from tests.slurm.lines import Line
from tests.slurm.watcher import Eligible, Room, ShownJob, Watcher

_FULL = Room(cores=0, memory_mb=0, is_idle=False)
_IDLE = Room(cores=8, memory_mb=8_000, is_idle=True)
_SOME = Room(cores=2, memory_mb=2_000, is_idle=False)


def shown(number: int, state: str = "PENDING", end_s: int = 0) -> ShownJob:
    """A job that was submitted long ago."""
    return ShownJob(number, 0, state, "", 1, 1 if end_s else 0, end_s, 0, "None")


def watched(*jobs: tuple[ShownJob, Line], **rooms: Room) -> Watcher:
    """What two looks note between which time passes."""
    found = Watcher([line for _, line in jobs])
    places = {job.number: place for place, (job, _) in enumerate(jobs)}
    all_shown = [job for job, _ in jobs]
    eligible = Eligible([line for _, line in jobs], places, all_shown, {})
    for _ in range(2):
        found.note(all_shown, rooms, places, eligible)
        time.sleep(0.01)
    return found


def test_an_idle_node_beside_a_job_that_fits_is_wasted() -> None:
    found = watched((shown(1), Line(0, "plain", ("big",))), b1=_IDLE, b2=_FULL)
    assert found.longest_wasted_s > 0
    assert found.longest["node"] == "b1 beside 1_0: plain, None"


def test_a_job_that_fits_on_a_shared_node_is_passed_over() -> None:
    found = watched((shown(1), Line(0, "plain", ("big",), cores=2)), b1=_SOME)
    assert (found.longest_wasted_s, found.longest_passed_s > 0) == (0, True)


@pytest.mark.parametrize(
    "line",
    [
        Line(0, "plain", ("small",)),
        Line(0, "features", ("big",), features="skylake"),
        Line(0, "named", ("big",), wanted="b2"),
        Line(0, "named", ("big",), excluded="b1"),
        Line(0, "memory", ("big",), memory_mb=9_000),
        Line(0, "plain", ("big",), cores=9),
        Line(0, "begin", ("big",), begin_s=4_000_000_000),
        Line(0, "hold", ("big",), release_s=1.0),
        Line(0, "dependency", ("big",), awaits=(("afterany", 7),)),
        Line(0, "reservation", ("big",), is_reserved=True),
    ],
)
def test_a_node_on_which_a_job_may_not_start_now_is_not_wasted(line: Line) -> None:
    found = watched((shown(1), line), b1=_IDLE)
    assert (found.longest_wasted_s, found.longest_passed_s) == (0, 0)


def test_a_node_that_a_wider_job_waits_for_is_not_wasted() -> None:
    wide, one = Line(0, "nodes", ("big",), nodes=2, cores=2), Line(0, "plain", ("big",))
    found = watched((shown(1), wide), (shown(2), one), b1=_IDLE, b2=_FULL)
    assert (found.longest_wasted_s, found.longest_passed_s) == (0, 0)
    both = watched((shown(1), wide), (shown(2), one), b1=_IDLE, b2=_IDLE)
    assert both.longest_wasted_s > 0


def test_a_node_that_a_heterogeneous_job_before_waits_for_is_not_wasted() -> None:
    both, one = Line(0, "het", ("big",), beside="small"), Line(0, "plain", ("big",))
    found = watched((shown(1), both), (shown(2), one), b1=_IDLE)
    assert (found.longest_wasted_s, found.longest_passed_s) == (0, 0)
    behind = watched((shown(1), one), (shown(2), both), b1=_IDLE)
    assert behind.longest_wasted_s > 0


def test_a_job_is_eligible_when_what_it_waits_for_has_ended() -> None:
    lines = [Line(0, "plain", ("big",)), Line(0, "dependency", ("big",), awaits=(("afterany", 0),))]
    ended, waits = shown(1, "COMPLETED", end_s=50), shown(2)
    assert Eligible(lines, {1: 0, 2: 1}, [ended, waits], {}).since_s(waits) == 50
    assert Eligible(lines, {1: 0, 2: 1}, [shown(1), waits], {}).since_s(waits) is None

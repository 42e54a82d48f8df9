"""Plans played forward."""

from math import inf

from shared.scheduling.plan_evaluation import ExecutionMode, PlannedEntry, Running, Situation
from shared.scheduling.pool import Pool

HOUR_S = 3600.0


def test_a_job_that_started_elsewhere_does_not_start_again_when_its_later_entry_comes() -> None:
    mode = ExecutionMode(limit_s=4 * HOUR_S, power_w=100.0, pstate=0)
    now, later = PlannedEntry(0, 7, 0, 2, mode), PlannedEntry(1, 7, 1, 2, mode, from_s=HOUR_S)
    starts = Situation(0.0, (Pool(4), Pool(4)), {}).evaluate([now, later], share=1.0)
    assert [(start.planned, start.start_s) for start in starts] == [(now, 0.0)]


def test_an_entry_waits_for_its_hour() -> None:
    mode = ExecutionMode(limit_s=4 * HOUR_S, power_w=100.0, pstate=0)
    later = PlannedEntry(1, 7, 1, 2, mode, from_s=HOUR_S)
    [start] = Situation(0.0, (Pool(4), Pool(4)), {}).evaluate([later], share=1.0)
    assert start == (later, HOUR_S, False)


def test_nodes_that_are_never_back_are_counted_on_by_no_plan() -> None:
    mode = ExecutionMode(limit_s=4 * HOUR_S, power_w=100.0, pstate=0)
    running = {1: Running(0, 3, 0.0, inf, inf), 2: Running(0, 1, 0.0, HOUR_S, HOUR_S)}
    situation = Situation(0.0, (Pool(4),), running)
    two, one = PlannedEntry(1, 7, 0, 2, mode), PlannedEntry(2, 8, 0, 1, mode)
    assert situation.last_release_s == HOUR_S
    [start] = situation.evaluate([two, one], share=1.0)
    assert start == (one, HOUR_S, False)

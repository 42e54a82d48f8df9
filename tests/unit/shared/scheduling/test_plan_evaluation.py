"""Plans played forward."""

from math import inf

from shared.scheduling.plan_evaluation import ExecutionMode, PlannedEntry, Running, Situation
from shared.scheduling.pool import Pool

HOUR_S = 3600.0
MODE = ExecutionMode(limit_s=4 * HOUR_S, power_w=100.0, pstate=0)


def test_an_entry_waits_for_its_hour_unless_its_job_has_started_elsewhere() -> None:
    now, later = PlannedEntry(0, 7, 0, 2, MODE), PlannedEntry(1, 7, 1, 2, MODE, from_s=HOUR_S)
    situation = Situation(0.0, (Pool(4), Pool(4)), {})
    assert situation.evaluate([later], share=1.0) == [(later, HOUR_S, False)]
    assert situation.evaluate([now, later], share=1.0) == [(now, 0.0, False)]


def test_nodes_that_are_never_back_are_counted_on_by_no_plan() -> None:
    running = {1: Running(0, 3, 0.0, inf, inf), 2: Running(0, 1, 0.0, HOUR_S, HOUR_S)}
    situation = Situation(0.0, (Pool(4),), running)
    two, one = PlannedEntry(1, 7, 0, 2, MODE), PlannedEntry(2, 8, 0, 1, MODE)
    assert situation.last_release_s == HOUR_S
    [start] = situation.evaluate([two, one], share=1.0)
    assert start == (one, HOUR_S, False)

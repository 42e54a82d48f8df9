"""Plans played forward."""

from shared.scheduling.plan_evaluation import ExecutionMode, PlannedEntry, Situation
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

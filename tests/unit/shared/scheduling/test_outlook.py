"""Plans played forward."""

from shared.scheduling.outlook import Option, Situation, Stand
from shared.scheduling.timeline import Pool

HOUR_S = 3600.0


def test_a_job_that_started_elsewhere_does_not_start_again_when_its_later_entry_comes() -> None:
    option = Option(limit_s=4 * HOUR_S, power_w=100.0, pstate=0)
    now, later = Stand(0, 7, 0, 2, option), Stand(1, 7, 1, 2, option, from_s=HOUR_S)
    starts = Situation(0.0, (Pool(4), Pool(4)), {}).outlook([now, later], share=1.0)
    assert [(start.stand, start.start_s) for start in starts] == [(now, 0.0)]


def test_an_entry_waits_for_its_hour() -> None:
    option = Option(limit_s=4 * HOUR_S, power_w=100.0, pstate=0)
    later = Stand(1, 7, 1, 2, option, from_s=HOUR_S)
    [start] = Situation(0.0, (Pool(4), Pool(4)), {}).outlook([later], share=1.0)
    assert start == (later, HOUR_S, False)

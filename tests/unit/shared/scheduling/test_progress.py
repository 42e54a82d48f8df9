"""Work is done at the slowdown of the moment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.scheduling.progress import Progress, slowest
from shared.scheduling.run_share import RunShare, expected_end_s

intervals = st.lists(st.tuples(st.floats(0, 1e4), st.floats(1, 5)), max_size=20)


@given(intervals)
def test_work_done_is_the_sum_of_the_time_over_the_slowdown(
    intervals: list[tuple[float, float]],
) -> None:
    progress = Progress(1e6)
    for elapsed_s, slowdown_ratio in intervals:
        progress.slowdown_ratio = slowdown_ratio
        assert progress.remaining_s == progress.solo_s_left * slowdown_ratio
        progress.advance(elapsed_s)
    done_s = sum(elapsed_s / ratio for elapsed_s, ratio in intervals)
    assert progress.solo_s_left == pytest.approx(1e6 - done_s)


def test_the_slowest_node_sets_the_pace_and_without_neighbours_nothing_does() -> None:
    assert slowest([1.1, 1.4, 1.0]) == 1.4
    assert slowest([]) == 1.0


@pytest.mark.parametrize(
    ("now_s", "expected_s"),
    [(100.0, 150.0), (130.0, 150.0), (150.0, 175.0), (190.0, 200.0), (250.0, 251.0)],
    ids=["at its start", "by the share", "half as long again", "at its limit", "overdue"],
)
def test_a_job_is_expected_to_run_for_its_share_and_then_for_half_as_long_again(
    now_s: float, expected_s: float
) -> None:
    share = RunShare(jobs=1, total=0.5)
    assert expected_end_s(share.mean, now_s, start_s=100.0, limit_s=100.0) == expected_s

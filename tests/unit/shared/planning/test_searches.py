"""What a search for a plan is given while it has no answer."""

import pytest

from shared.planning.searches import tried_limits_s


@pytest.mark.parametrize(
    ("limit_s", "longest_s", "tried_s"),
    [(1.0, 8.0, [1.0, 2.0, 4.0, 8.0]), (3.0, 8.0, [3.0, 6.0]), (5.0, 1.0, [5.0])],
)
def test_limits_double_up_to_the_longest_and_the_first_is_tried_in_any_case(
    limit_s: float, longest_s: float, tried_s: list[float]
) -> None:
    assert tried_limits_s(limit_s, longest_s) == tried_s

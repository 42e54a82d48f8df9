"""The order of the last plan where some jobs left and others came."""

import numpy as np

from shared.planning.last_order import kept_order
from shared.scheduling.list_scheduling import CappedSituation, FreeNodes, Wanted


def test_who_is_new_comes_before_the_first_whom_the_rule_has_behind_it() -> None:
    free = FreeNodes.build(np.ones((1, 1), dtype=np.int64))
    waiting = [Wanted(arrival, 1, (1,), 1, 1.0, 1.0) for arrival in (10, 11, 12, 13, 14)]
    situation = CappedSituation(0.0, 1, free, [], waiting)
    # By the rule 14, 10, 11, 12, 13; the last plan had 12, then one that left, then 10.
    assert kept_order(situation, [4, 0, 1, 2, 3], [12, 99, 10]) == [4, 1, 2, 0, 3]
    assert kept_order(situation, [4, 0, 1, 2, 3], []) == [4, 0, 1, 2, 3]

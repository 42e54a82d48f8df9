"""Two planners, one for when jobs come often and one for when they do not."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from shared.scheduling.list_scheduling import CappedSituation, Planned, StartPlanner

# One job every two minutes is often (Borghesi and others, 2018, section 5.2.3), in the mean of so
# long a time.
_OFTEN_S: Final = 120.0
_WINDOW_S: Final = 1200.0


class ArrivalSwitch:
    """Lets `often` plan while jobs come often, and `seldom` else: see StartPlanner. `submit_s` is
    when jobs come, ascending."""

    def __init__(
        self, submit_s: Sequence[float], often: StartPlanner, seldom: StartPlanner
    ) -> None:
        self._submit_s, self._often, self._seldom = submit_s, often, seldom

    def plan(self, at: CappedSituation) -> Sequence[Planned]:
        """Plan by the planner whose time it is."""
        planner = self._often if self.comes_often(at.now_s) else self._seldom
        return planner.plan(at)

    def comes_often(self, now_s: float) -> bool:
        """Return whether a job came every two minutes or more often lately."""
        submit_s = self._submit_s
        came = bisect_right(submit_s, now_s) - bisect_right(submit_s, now_s - _WINDOW_S)
        return came * _OFTEN_S >= _WINDOW_S

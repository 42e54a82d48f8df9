"""The base of schedulers that plan on a profile of one cluster: see `profile.py`."""

from collections.abc import Sequence

from shared.scheduling.dispatch import DONE, Scheduler, Served
from shared.scheduling.power import NO_CAP, Budgets, PowerBudget
from shared.scheduling.releases import Releases
from shared.scheduling.wait_queue import WaitQueue


class ProfileScheduler(Scheduler):
    """Does what `EasyScheduler` does, by other rules; jobs do not share nodes here.

    It knows a budget of its own. Raises ValueError for one that several schedulers share: each of
    them reserves watts for all that waits, and no two reservations to one job would be kept.
    """

    def __init__(self, nodes: int, number: int = 0, budgets: Sequence[PowerBudget] = ()) -> None:
        if any(budget.is_shared for budget in budgets):
            raise ValueError("reservations for all that waits know caps of one cluster: take easy")
        self.number, self.queue, self.next_order = number, WaitQueue(), DONE
        self.budgets = Budgets(budgets)
        self._nodes, self._cap = nodes, NO_CAP
        for budget in budgets:
            self._cap = budget.cap.less(budget.base_mw)
        self._releases = Releases()
        self._now_s = 0.0

    @property
    def is_relieved(self) -> bool:
        """Return False: no other scheduler has its watts."""
        return False

    def finish(self) -> None:
        """End the pass: an entry that leaves the queue between passes is seen by the next one."""

    def pass_alone(self, now_s: float) -> list[Served]:
        """Make a pass that this scheduler is alone in: return what starts."""
        self.begin(now_s)
        started = []
        while self.next_order != DONE:
            served = self.serve()
            if served is not None:
                started.append(served)
            self.turn()
        return started

"""Entries of a queue that there is power for, a block at a time: of ten thousand waiting entries a
pass under caps lets a hundred start, so that most blocks are passed over."""

from bisect import bisect_left, bisect_right

from shared.scheduling.headroom import LeastHeadroom
from shared.scheduling.wait_queue import Block, Entry, WaitQueue


class PoweredEntries:
    """The entries of one queue under what budgets have left, in a pass.

    Within a pass there is only ever less, but for reservations that are given up: entries that
    these let start are for the pass that follows, as `is_relieved` of budgets says.
    """

    def __init__(self, queue: WaitQueue) -> None:
        self._queue, self._now_s = queue, 0.0
        # Orders of the jobs with a reservation of watts, as of some headroom of this pass.
        self._kept: list[int] = []
        self._least: LeastHeadroom | None = None

    def begin(self, now_s: float) -> None:
        """Begin a pass."""
        self._now_s, self._least = now_s, None

    def has_any(self, block: Block, order: int, least: LeastHeadroom) -> bool:
        """Return False where there is power for no entry of a block, from an order on."""
        return self.has_for_any(block, least) or bool(self.reserved_entries(block, order, least))

    def has_for_any(self, block: Block, least: LeastHeadroom) -> bool:
        """Return False when no entry may draw what it does for as long as it does. Of jobs with a
        reservation there that is not known: it does not count against them."""
        if not least.has_any(block.least_draws(), self._now_s):
            return False
        anew = block.least_draws_now()
        return anew is None or least.has_any(anew, self._now_s)

    def reserved_entries(self, block: Block, order: int, least: LeastHeadroom) -> list[Entry]:
        """Return the entries of a block, from an order on, of jobs that have a reservation of
        watts."""
        kept, last = self._orders_kept(least), block.last_order
        place = bisect_left(kept, max(order, block.first_order))
        if place == len(kept) or kept[place] > last:
            return []  # as nearly always
        found = [block.entry_of(order) for order in kept[place : bisect_right(kept, last)]]
        return [entry for entry in found if entry is not None]

    def _orders_kept(self, least: LeastHeadroom) -> list[int]:
        """Return the orders, ascending, of the waiting entries of such jobs; some may have left."""
        if least is not self._least:
            orders = [self._queue.order_of(arrival) for arrival in least.kept_for]
            self._kept = sorted([order for order in orders if order is not None])
            self._least = least
        return self._kept

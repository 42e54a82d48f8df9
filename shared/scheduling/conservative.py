"""One cluster under conservative backfill: every entry that waits has a reservation.

Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates in
scheduling the IBM SP2 with backfilling" (2001), section 2: an entry starts when it delays none
that came before it. When nodes are released early each entry in order moves forward as far as it
can, never back, until none can. A job that runs past its limit is expected to take as long again:
then all reservations are made anew.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import inf

from shared.scheduling.dispatch import DONE, Served
from shared.scheduling.power import PowerBudget
from shared.scheduling.profile import Profile
from shared.scheduling.profile_scheduler import ProfileScheduler
from shared.scheduling.wait_queue import Entry
from shared.scheduling.windows import Maintained


class ConservativeScheduler(ProfileScheduler):
    """Keeps one profile, in which every entry that waits has its place. What is maintained is
    taken of it beforehand: from a time until another so many nodes are not there."""

    def __init__(
        self,
        nodes: int,
        number: int = 0,
        budgets: Sequence[PowerBudget] = (),
        maintained: Sequence[Maintained] = (),
    ) -> None:
        super().__init__(nodes, number, budgets)
        self._maintained = maintained
        self._profile = self._empty_from(0.0)
        self._reserved_s: dict[int, float] = {}
        self._new: list[Entry] = []
        self._next: Entry | None = None
        self._started: dict[int, Entry] = {}
        self._has_room = False  # nodes were released since the reservations were made

    def begin(self, now_s: float) -> None:
        """Start a pass."""
        self._now_s = now_s
        self._profile.forget_before(now_s)
        if self._is_late():
            self._start_over()
        elif self._has_room:
            self._compress()
        for entry in sorted(self._new):
            self._reserve(entry)
        self._new = []
        self.turn()

    def serve(self) -> Served:
        """Start the next entry, whose reservation is due."""
        entry = self._next
        assert entry is not None
        waits_before = next(iter(self.queue)).order != entry.order
        self.queue.remove(entry.arrival)
        del self._reserved_s[entry.arrival]
        self._started[entry.arrival] = entry
        self._releases.hold((self._now_s + entry.limit_s, entry.arrival, entry.nodes))
        return self.number, entry, None, waits_before

    def add(self, entry: Entry) -> None:
        """Put an entry that arrived into the queue. One that belongs before others gets what these
        leave."""
        self.queue.add(entry)
        self._new.append(entry)

    def drop(self, arrival: int) -> None:
        """Take out the entry of a job that started elsewhere."""
        entry = next((e for e in self.queue if e.arrival == arrival), None)
        if entry is not None:
            self.queue.remove(arrival)
            self._give_back(entry, self._reserved_s.pop(arrival))
            self._compress()
            self.turn()

    def release(self, holder: int) -> None:
        """Free the nodes of the job `holder`."""
        release_s, _, nodes = self._releases.release(holder)
        entry = self._started.pop(holder)
        if release_s > self._now_s:
            self._profile.take(self._now_s, release_s, -nodes, -entry.draw_mw)
            self._has_room = True

    def turn(self) -> None:
        """Find the next entry whose reservation is due: see `next_order`."""
        due = (e for e in self.queue if self._reserved_s[e.arrival] <= self._now_s)
        self._next = next(due, None)
        self.next_order = self._next.order if self._next else DONE

    def _reserve(self, entry: Entry) -> None:
        start_s = self._profile.earliest(entry.nodes, entry.draw_mw, entry.limit_s)
        self._reserved_s[entry.arrival] = start_s
        if start_s < inf:
            self._profile.take(start_s, start_s + entry.limit_s, entry.nodes, entry.draw_mw)

    def _give_back(self, entry: Entry, start_s: float) -> None:
        if start_s < inf:
            self._profile.take(start_s, start_s + entry.limit_s, -entry.nodes, -entry.draw_mw)

    @property
    def times_s(self) -> list[float]:
        """Return when what is maintained is there no more, and when it is back."""
        return [time_s for each in self._maintained for time_s in (each.from_s, each.until_s)]

    def _empty_from(self, now_s: float) -> Profile:
        """Return the profile while nothing runs and nothing waits."""
        profile = Profile(now_s, self._nodes, self._cap)
        times_s = sorted({now_s, *(time_s for time_s in self.times_s if time_s > now_s)})
        for from_s, until_s in pairwise(times_s):
            there = [m.units for m in self._maintained if m.from_s <= from_s < m.until_s]
            if there:  # the last nodes are in all of them
                profile.take(from_s, until_s, max(there), 0)
        return profile

    def _is_late(self) -> bool:
        """Return True when a job ran past its limit, or did so and kept another from its
        reservation."""
        is_overdue = self._overdue() is not None
        return is_overdue or min(self._reserved_s.values(), default=inf) < self._now_s

    def _overdue(self) -> int | None:
        """Return a job that runs past its limit; None where none does."""
        release_s, holder, _ = self._releases.first or (inf, -1, 0)
        return holder if release_s <= self._now_s else None

    def _compress(self) -> None:
        """Move reservations forward until none can be."""
        self._has_room = False
        entries = [entry for entry in self.queue if entry.arrival in self._reserved_s]
        while sum(map(self._moved, entries)):
            pass

    def _moved(self, entry: Entry) -> bool:
        """Move the reservation of an entry forward: return True where that was possible."""
        before_s = self._reserved_s[entry.arrival]
        self._give_back(entry, before_s)
        self._reserve(entry)
        return self._reserved_s[entry.arrival] < before_s

    def _start_over(self) -> None:
        """Make the reservations anew: running jobs are overdue."""
        self._has_room = False
        while (holder := self._overdue()) is not None:
            _, _, nodes = self._releases.release(holder)
            limit_s = self._started[holder].limit_s
            self._releases.hold((self._now_s + limit_s, holder, nodes))
        self._profile = self._empty_from(self._now_s)
        for release_s, holder, nodes in self._releases.in_order:
            self._profile.take(self._now_s, release_s, nodes, self._started[holder].draw_mw)
        self._reserved_s, self._new = {}, list(self.queue)

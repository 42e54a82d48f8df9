"""One cluster under Slurm's two schedulers: the main one, and backfill every so often.

As the documentation of Slurm describes them (sched_conf: bf_max_job_test, bf_window, bf_interval;
bf_resolution is exact here): whenever something happens the main scheduler starts entries in order
and stops at the first that cannot start. The backfill scheduler looks at what changed, `interval_s`
after its last look at the soonest. It goes through the first `depth` entries in order, gives each
the earliest start that delays none before it, starts what may start now, and reserves for the
others that begin within `window_s`; all reservations are made anew each time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from shared.scheduling.dispatch import DONE, Served
from shared.scheduling.power import PowerBudget
from shared.scheduling.profile import Profile
from shared.scheduling.profile_scheduler import ProfileScheduler
from shared.scheduling.wait_queue import Entry


@dataclass(frozen=True, slots=True)
class SlurmBackfill:
    """Parameters, with Slurm's defaults: 500 jobs, one day, 30 s."""

    depth: int = 500
    window_s: float = 86_400.0
    interval_s: float = 30.0

    def __post_init__(self) -> None:
        if self.depth < 1 or not self.window_s > 0 or not self.interval_s > 0:
            raise ValueError(f"depth, window_s and interval_s must be above 0, got {self}")

    def __reduce__(self) -> tuple[type["SlurmBackfill"], tuple[int, float, float]]:
        """Pickle by the parameters: a compiled frozen class can't be filled after it is made."""
        return SlurmBackfill, (self.depth, self.window_s, self.interval_s)


SLURM_DEFAULTS: Final = SlurmBackfill()


class SlurmScheduler(ProfileScheduler):
    """Makes a profile of the running jobs in each pass."""

    def __init__(
        self,
        nodes: int,
        parameters: SlurmBackfill,
        number: int = 0,
        budgets: Sequence[PowerBudget] = (),
    ) -> None:
        super().__init__(nodes, number, budgets)
        self._parameters = parameters
        self._draws_mw: dict[int, int] = {}
        self._free = nodes
        self._backfill_s, self._is_changed = -inf, False
        self._due: list[tuple[Entry, bool]] = []

    @property
    def wake_s(self) -> float:
        """Return when the backfill scheduler runs next; infinite where nothing waits or changed."""
        may_start = self._is_changed and len(self.queue) > 0
        return self._backfill_s + self._parameters.interval_s if may_start else inf

    def begin(self, now_s: float) -> None:
        """Find what starts in this pass, by both schedulers."""
        self._now_s, self._due = now_s, []
        is_time = now_s >= self._backfill_s + self._parameters.interval_s
        first = next(iter(self.queue), None)
        if first is not None and (is_time or first.nodes <= self._free):
            profile = self._profile()
            self._due = self._main(profile)
            if is_time:
                found = self._backfill(profile, len(self._due))
                # What starts lets others come into the depth.
                self._backfill_s, self._is_changed = now_s, bool(found)
                self._due += found
        self.turn()

    def turn(self) -> None:
        """Show the next entry that starts: see `next_order`."""
        self.next_order = DONE
        if self._due:
            first, _ = self._due[0]
            self.next_order = first.order

    def serve(self) -> Served:
        """Start the next entry."""
        entry, is_backfilled = self._due.pop(0)
        self.queue.remove(entry.arrival)
        self._free -= entry.nodes
        self._releases.hold((self._now_s + entry.limit_s, entry.arrival, entry.nodes))
        self._draws_mw[entry.arrival] = entry.draw_mw
        return self.number, entry, None, is_backfilled

    def add(self, entry: Entry) -> None:
        """Put an entry that arrived into the queue."""
        self.queue.add(entry)
        self._is_changed = True

    def drop(self, arrival: int) -> None:
        """Take out the entry of a job that started elsewhere."""
        self.queue.remove(arrival)
        self._due = [(each, passes) for each, passes in self._due if each.arrival != arrival]
        self.turn()

    def release(self, holder: int) -> None:
        """Free the nodes of the job `holder`."""
        _, _, nodes = self._releases.release(holder)
        self._free += nodes
        self._is_changed = True
        del self._draws_mw[holder]

    def _main(self, profile: Profile) -> list[tuple[Entry, bool]]:
        """Return what starts in order, up to the first that cannot start."""
        found: list[tuple[Entry, bool]] = []
        for entry in self.queue:
            if not self._starts(profile, entry):
                break
            found.append((entry, False))
        return found

    def _backfill(self, profile: Profile, started: int) -> list[tuple[Entry, bool]]:
        """Return what starts now of the first entries without delaying a reservation."""
        found: list[tuple[Entry, bool]] = []
        latest_s = self._now_s + self._parameters.window_s
        for number, entry in enumerate(self.queue):
            if number < started:
                continue
            if number >= started + self._parameters.depth:
                break
            start_s = profile.earliest(entry.nodes, entry.draw_mw, entry.limit_s)
            if start_s < latest_s:
                profile.take(start_s, start_s + entry.limit_s, entry.nodes, entry.draw_mw)
            if start_s <= self._now_s:
                found.append((entry, True))
        return found

    def _starts(self, profile: Profile, entry: Entry) -> bool:
        """Return True where an entry starts now; it has its nodes then."""
        start_s = profile.earliest(entry.nodes, entry.draw_mw, entry.limit_s)
        if start_s > self._now_s:
            return False
        profile.take(start_s, start_s + entry.limit_s, entry.nodes, entry.draw_mw)
        return True

    def _profile(self) -> Profile:
        """Return what is free if limits hold; a job past its limit is expected to end by the next
        look."""
        profile = Profile(self._now_s, self._nodes, self._cap)
        for release_s, holder, nodes in self._releases.in_order:
            is_overdue = release_s <= self._now_s
            until_s = self._now_s + self._parameters.interval_s if is_overdue else release_s
            profile.take(self._now_s, until_s, nodes, self._draws_mw[holder])
        return profile

"""A cluster under Slurm's two schedulers: the main one, and backfill every so often.

As the documentation of Slurm describes them (sched_conf: bf_max_job_test, bf_window, bf_interval;
bf_resolution is exact here): whenever something happens the main scheduler starts entries in order
and stops at the first that cannot start. The backfill scheduler looks at what changed, `interval_s`
after its last look at the soonest. It goes through the first `depth` entries in order, gives each
the earliest start that delays none before it, starts what may start now, and reserves for the
others that begin within `window_s`; all reservations are made anew each time.

What is free over time is counted in `slurm_nodes.py` by whole nodes, in `slurm_units.py` by parts
of them.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from shared.scheduling.dispatch import DONE
from shared.scheduling.load import Reservation
from shared.scheduling.looks import Look, ReservedStart
from shared.scheduling.power import PowerBudget, Shortage
from shared.scheduling.profile_scheduler import ProfileScheduler
from shared.scheduling.wait_queue import Entry, WaitQueue

# Rounds end at whole microseconds: a look is not late for less.
_TICK_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class SlurmBackfill:
    """Parameters, with Slurm's defaults: 500 jobs, one day, 30 s.

    `records` is at how many records of its table of reservations a look ends, of now and of each
    time at which one begins or ends; 0 is any number.
    """

    depth: int = 500
    window_s: float = 86_400.0
    interval_s: float = 30.0
    records: int = 0

    def __post_init__(self) -> None:
        if self.depth < 1 or not self.window_s > 0 or not self.interval_s > 0:
            raise ValueError(f"depth, window_s and interval_s must be above 0, got {self}")
        if self.records < 0:
            raise ValueError(f"records must be 0 or more, got {self.records}")

    def __reduce__(self) -> tuple[type["SlurmBackfill"], tuple[int, float, float, int]]:
        """Pickle by the parameters: a compiled frozen class can't be filled after it is made."""
        return SlurmBackfill, (self.depth, self.window_s, self.interval_s, self.records)


SLURM_DEFAULTS: Final = SlurmBackfill()


class SlurmScheduler(ProfileScheduler):
    """Makes a profile of the running jobs in each pass, and plans on it. `look` is the last one of
    a scheduler that had this cluster before."""

    def __init__(
        self,
        nodes: int,
        queue: WaitQueue,
        parameters: SlurmBackfill,
        number: int,
        budgets: Sequence[PowerBudget],
        look: Look,
    ) -> None:
        super().__init__(nodes, number, budgets)
        self._is_capped, self._undrawn_mw = self.budgets.any, self._undrawn()
        self.queue, self.parameters = queue, parameters
        self._backfill_s, self._is_changed, self._seen = look.at_s, look.is_changed, look.seen
        self._reserved = list(look.reserved)
        self.ended_before, self.is_table_full = look.ended_before, look.is_table_full
        self._due: list[tuple[Entry, bool]] = []
        self._is_begun = False

    @property
    def look(self) -> Look:
        """Return the last look, for the next scheduler of this cluster."""
        seen = 0 if self._is_changed else self._sight()
        reserved = tuple(self._reserved)
        ended = self.ended_before, self.is_table_full
        return Look(self._backfill_s, self._is_changed, seen, reserved, *ended)

    @property
    def has_looked(self) -> bool:
        """Return whether the backfill scheduler ever looked."""
        return self._backfill_s > -inf

    @property
    def next_look_s(self) -> float:
        """Return when the backfill scheduler may look again: now, where it never did."""
        return max(self._backfill_s + self.parameters.interval_s, self._now_s)

    @property
    def wake_s(self) -> float:
        """Return when the backfill scheduler runs next; infinite where nothing waits or changed."""
        may_start = self._is_changed and len(self.queue) > 0
        return self._backfill_s + self.parameters.interval_s if may_start else inf

    def begin(self, now_s: float) -> None:
        """Find what starts in this pass, by both schedulers."""
        self._now_s, self._due = now_s, []
        if self._is_capped:
            self.budgets.begin(now_s)
            more = zip(self._undrawn(), self._undrawn_mw, strict=True)
            self._is_changed |= any(now_mw > before_mw for now_mw, before_mw in more)
        if not self._is_begun:
            self._is_begun = True
            self._is_changed = self._is_changed or self._sight() != self._seen
        is_time = now_s >= self._backfill_s + self.parameters.interval_s - _TICK_S
        first = next(iter(self.queue), None)
        if first is not None and (is_time or self._has_gap(first)):
            self._draw_profile()
            self._give_up()
            self._due = self._main()
            if is_time:
                found = self._backfill()
                # What starts lets others come into the depth.
                self._backfill_s, self._is_changed = now_s, bool(found)
                self._due += found
            else:
                self._keep_planned()
        self.turn()

    def turn(self) -> None:
        """Show the next entry that starts: see `next_order`."""
        self.next_order = DONE
        if self._due:
            first, _ = self._due[0]
            self.next_order = first.order

    def add(self, entry: Entry) -> None:
        """Put an entry that arrived into the queue."""
        self.queue.add(entry)
        self._is_changed = True

    def drop(self, arrival: int) -> None:
        """Take out the entry of a job that started elsewhere."""
        self.queue.start(arrival)
        self._due = [(each, passes) for each, passes in self._due if each.arrival != arrival]
        if self._is_capped:
            self.budgets.give_up(arrival)
        self.turn()

    def finish(self) -> None:
        """End the pass: what more watts there are then is a change."""
        self._undrawn_mw = self._undrawn()

    # What it answers ----------------------------------------------------------------------------

    def reservation_for(self, arrival: int) -> Reservation | None:
        """Return what the last look reserved for a job that waits still; None where that is
        nothing."""
        for each in self.planned():
            if each.arrival == arrival:
                return each.reservation
        return None

    def planned(self) -> list[ReservedStart]:
        """Return all that the last look reserved for jobs that wait still."""
        return [each for each in self._reserved if each.arrival in self.queue]

    def end_s(self, entry: Entry) -> float:
        """Return when the entry ends at the latest if it starts now."""
        return self._now_s + entry.limit_s

    def shortages(self, entry: Entry) -> list[Shortage]:
        """Return the budgets that do not let the entry start now, as they are now."""
        return self.budgets.shortages(entry.draw_mw, self.end_s(entry), entry.arrival)

    # What is counted -----------------------------------------------------------------------------

    @abstractmethod
    def delayed_by(self, entry: Entry) -> tuple[Reservation, int | None] | None:
        """Return the first reservation, of the jobs before an entry, that would be delayed if it
        started now, and how many nodes are free then beside what is reserved, where they are
        counted; None where none would."""

    @abstractmethod
    def expected_ends(self) -> list[tuple[float, int]]:
        """Return when the holders of nodes are expected to end."""

    @property
    @abstractmethod
    def is_any_allocated_for_ever(self) -> bool:
        """Return True where some nodes are never expected back."""

    @abstractmethod
    def expects_nodes(self, entry: Entry) -> bool:
        """Return False where too many nodes that an entry needs are allocated for ever."""

    @abstractmethod
    def _sight(self) -> int:
        """Return what waits and runs as a number, the same in every process: all that is hashed is
        numbers."""

    @abstractmethod
    def _has_gap(self, first: Entry) -> bool:
        """Return False where the first entry does not fit now."""

    @abstractmethod
    def _draw_profile(self) -> None:
        """Have what is free over time, if limits hold."""

    @abstractmethod
    def _gap_s(self, entry: Entry, from_s: float) -> float:
        """Return when, from a time on, an entry fits until its limit; infinite where
        it never does."""

    @abstractmethod
    def _take_gap(self, entry: Entry, start_s: float) -> None:
        """Have less free from a time on, at which an entry has room."""

    # What it does -------------------------------------------------------------------------------

    def _keep_planned(self) -> None:
        """Keep the watts that the last look reserved for jobs that wait still."""
        started = {entry.arrival for entry, _ in self._due}
        for arrival, _, start_s, end_s, draw_mw in self.planned() if self._is_capped else ():
            if arrival not in started:
                self.budgets.reserve(arrival, start_s, end_s - start_s, draw_mw)

    def _give_up(self) -> None:
        """Give up the watts that the last look reserved. The main scheduler counts none of them, as
        it counts none of the nodes."""
        if self._is_capped:
            for each in self._reserved:
                self.budgets.give_up(each.arrival)

    def _undrawn(self) -> list[int]:
        return [budget.undrawn_mw for budget in self.budgets]

    def _lasts_until_s(self, release_s: float) -> float:
        """Return until when a running job is expected to last: one past its limit ends by the next
        look."""
        return self._now_s + self.parameters.interval_s if release_s <= self._now_s else release_s

    def _main(self) -> list[tuple[Entry, bool]]:
        """Return what starts in order, up to the first that cannot start: what never can keeps
        nobody from it."""
        found: list[tuple[Entry, bool]] = []
        for waiting in self.queue:
            task: Entry | None = waiting
            while task is not None:
                entry, start_s = self._soonest(task)
                if start_s == inf:
                    break
                if start_s > self._now_s:
                    return found
                self._take(entry, start_s)
                found.append((entry, False))
                task = task.next_task()
        return found

    def _backfill(self) -> list[tuple[Entry, bool]]:
        """Return what starts now of the first entries without delaying a reservation."""
        found: list[tuple[Entry, bool]] = []
        self._reserved, self.ended_before, self.is_table_full = [], DONE, False
        latest_s = self._now_s + self.parameters.window_s
        most, times_s = self.parameters.records, {self._now_s}
        started, looked_at = {entry.arrival for entry, _ in self._due}, 0
        for first in self.queue:
            waiting = _behind(first, started)
            while waiting is not None:
                if looked_at >= self.parameters.depth:
                    self.ended_before = waiting.order
                    return found
                looked_at += 1
                entry, start_s = self._soonest(waiting)
                starts = start_s <= self._now_s
                if not starts and most and len(times_s) >= most:
                    self.ended_before, self.is_table_full = entry.order, True
                    return found
                if start_s < latest_s:
                    self._take(entry, start_s)
                if starts:
                    found.append((entry, True))
                elif start_s < latest_s:
                    times_s |= self._reserve(entry, start_s)
                # Of an array the next task is looked at once this one starts.
                waiting = waiting.next_task() if starts else None
        return found

    def _reserve(self, entry: Entry, start_s: float) -> set[float]:
        """Note what is reserved for an entry; return when that begins and ends."""
        end_s, draw_mw = start_s + entry.limit_s, entry.draw_mw
        self._reserved.append(ReservedStart(entry.arrival, entry.nodes, start_s, end_s, draw_mw))
        return {start_s, end_s}

    def _soonest(self, entry: Entry) -> tuple[Entry, float]:
        """Return when an entry starts at the earliest, and in which mode: in another one only where
        that is sooner. Infinite where it never fits."""
        start_s = self._earliest(entry)
        if self._is_capped and start_s > self._now_s:
            for other in [entry.in_mode(mode) for mode in entry.others]:
                sooner_s = self._earliest(other)
                if sooner_s < start_s:
                    entry, start_s = other, sooner_s
        return entry, start_s

    def _earliest(self, entry: Entry) -> float:
        """Return when there are nodes and watts for an entry, if limits hold."""
        start_s = self._gap_s(entry, self._now_s)
        power = entry.draw_mw, entry.limit_s
        while self._is_capped and start_s < inf:
            later_s = self.budgets.earliest(*power, start_s, entry.arrival)
            if later_s <= start_s:
                break
            start_s = self._gap_s(entry, later_s)
        if self._is_capped and start_s <= self._now_s and not self._has_power(entry):
            return self._now_s + self.parameters.interval_s  # a running job is overdue
        return start_s

    def _has_power(self, entry: Entry) -> bool:
        return self.budgets.has(entry.draw_mw, self.end_s(entry), entry.arrival)

    def _take(self, entry: Entry, start_s: float) -> None:
        """Reserve nodes and watts for an entry from a time on."""
        self._take_gap(entry, start_s)
        if self._is_capped:
            self.budgets.reserve(entry.arrival, start_s, entry.limit_s, entry.draw_mw)


def _behind(entry: Entry, started: set[int]) -> Entry | None:
    """Return the entry, or that of the first task of its array, that has not started; None where
    all have."""
    waiting: Entry | None = entry
    while waiting is not None and waiting.arrival in started:
        waiting = waiting.next_task()
    return waiting

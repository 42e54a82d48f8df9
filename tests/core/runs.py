"""Jobs that run and actions on them, as plainly as the rules are said: what counts of one while it
is asked to be otherwise, and what is asked of whom.

Nothing is taken from the code that is checked.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, NamedTuple

from tests.core.figures import Mode
from tests.core.plain import Budget, Kept, Region, Stay, any_shape

CLOCK, SUSPEND, RESUME, END = "clock", "suspend", "resume", "end"
ANSWERED_WITHIN_S: Final = 60.0  # an answer later than that is not counted on
ASKED_AGAIN_AFTER_S: Final = 600.0  # what was refused


class Action(NamedTuple):
    """How a run is to be, by the number of what was asked of it."""

    number: int
    kind: str
    mode: Mode
    stands: bool
    asked_s: float = 0.0

    @property
    def draw_mw(self) -> int:
        """What it draws once that is done."""
        return 0 if self.stands or self.kind == END else self.mode.draw_mw


@dataclass(frozen=True)
class Run:
    """A job on its nodes. It ends `left_s` after `since_s` where it runs; where it is suspended
    so much is left of it."""

    arrival: int
    cluster: str
    units: tuple[tuple[int, int], ...]
    priority: int
    started_s: float
    mode: Mode
    wanted_ghz: float
    since_s: float
    left_s: float
    stands: bool = False
    is_confirmed: bool = False
    is_to_end: bool = False  # since somebody cancelled it
    is_to_stand: bool = False  # since an operator suspended it
    pending: tuple[Action, ...] = ()
    asked: int = 0
    refused: tuple[tuple[str, float], ...] = ()

    @property
    def ends_s(self) -> float:
        """When its limit is up; infinite while it is suspended."""
        return inf if self.stands else self.since_s + self.left_s

    def done(self, action: Action, at_s: float) -> "Run":
        """The run as it is from a time on: of its limit the same share is left."""
        if self.stands and action.stands:
            at_s = self.since_s
        left_s = self.left_s if self.stands else self.since_s + self.left_s - at_s
        if left_s > 0:  # the time of one that is overdue does not stretch
            left_s *= self.mode.ghz / action.mode.ghz
        pending = tuple(each for each in self.pending if each.number > action.number)
        return replace(
            self,
            mode=action.mode,
            stands=action.stands,
            since_s=at_s,
            left_s=left_s,
            pending=pending,
        )

    def refuses(self, action: Action, at_s: float) -> "Run":
        """The run as it was, of which that is not asked for a while."""
        pending = tuple(each for each in self.pending if each is not action)
        others = tuple(one for one in self.refused if one[0] != action.kind)
        return replace(self, pending=pending, refused=(*others, (action.kind, at_s)))

    # Until an action is answered the worse counts -------------------------------------------------

    @property
    def draw_mw(self) -> int:
        """The most that it may draw by now."""
        now_mw = 0 if self.stands else self.mode.draw_mw
        return max(now_mw, *(each.draw_mw for each in self.pending), 0)

    @property
    def release_s(self) -> float:
        """The latest time at which it may give its nodes back. A suspended one is expected
        as if it ran on at once."""
        as_it_is = self.since_s + self.left_s
        moving = [each for each in self.pending if not each.stands]
        return max([as_it_is, *(self.done(each, each.asked_s).ends_s for each in moving)])

    @property
    def will_stand(self) -> bool:
        """Whether it is suspended once all is done that was asked."""
        return self.pending[-1].stands if self.pending else self.stands

    def may_be_asked(self, kind: str, lost: Iterable[str], now_s: float) -> bool:
        """Not where it is to end, nobody is there to ask, or the answer was no."""
        if self.is_to_end or self.cluster in lost:
            return False
        return not any(k == kind and s > now_s - ASKED_AGAIN_AFTER_S for k, s in self.refused)


Runs = dict[str, Run]
Modes = Callable[[str, Run], Sequence[Mode]]


@dataclass
class Acting:
    """What is to be asked of running jobs, at the end of a round."""

    now_s: float
    runs: Runs
    lost: set[str]
    modes: Modes
    measures: Sequence[str]
    shares: bool

    def ask(self, job_id: str, kind: str, mode: Mode, *, stands: bool) -> tuple[str, Action]:
        """It counts from now on."""
        run = self.runs[job_id]
        action = Action(run.asked + 1, kind, mode, stands, self.now_s)
        self.runs[job_id] = replace(run, asked=action.number, pending=(*run.pending, action))
        return job_id, action

    def _may(self, job_id: str, kind: str) -> bool:
        return self.runs[job_id].may_be_asked(kind, self.lost, self.now_s)

    def _first_to_have_watts(self) -> list[str]:
        """The highest priority, of these the one that started first."""
        found = [job_id for job_id, run in self.runs.items() if run.is_confirmed]
        return sorted(found, key=lambda j: (-self.runs[j].priority, *self._came(j)))

    def _came(self, job_id: str) -> tuple[float, int]:
        return self.runs[job_id].started_s, self.runs[job_id].arrival

    # Operators, and caps that fell ----------------------------------------------------------------

    def for_operators(self) -> Iterator[tuple[str, Action]]:
        """A job that is to be suspended is asked to, in the mode that it has or will have."""
        for job_id, run in sorted(self.runs.items(), key=lambda one: one[1].arrival):
            wanted = run.is_confirmed and run.is_to_stand and not run.will_stand
            if wanted and self._may(job_id, SUSPEND):
                yield self.ask(job_id, SUSPEND, self._mode(job_id), stands=True)

    def _mode(self, job_id: str) -> Mode:
        run = self.runs[job_id]
        return run.pending[-1].mode if run.pending else run.mode

    def under_caps(self, budgets: Iterable[Budget]) -> Iterator[tuple[str, Action]]:
        """Of each budget that is exceeded: until what was asked is enough."""
        for budget in budgets:
            under = [run for run in self.runs.values() if run.cluster in budget.clusters]
            over_mw = budget.idle_mw + sum(run.draw_mw for run in under) - budget.cap_mw(self.now_s)
            if over_mw <= 0:
                continue
            for run in under:
                if run.pending and run.pending[-1].asked_s >= self.now_s - ANSWERED_WITHIN_S:
                    over_mw -= run.draw_mw - run.pending[-1].draw_mw
            yield from self._reduce(budget, int(over_mw))

    def _reduce(self, budget: Budget, over_mw: int) -> Iterator[tuple[str, Action]]:
        """The last job to have watts is asked first. A later measure takes the place of an earlier
        one; then jobs that need not be stopped are not, and clocks go up again, as far as what is
        too much given up allows."""
        last = [j for j in self._first_to_have_watts() if self.runs[j].cluster in budget.clusters]
        last.reverse()
        chosen: dict[str, tuple[str, Mode]] = {}
        slowed: dict[str, tuple[str, Mode]] = {}
        for measure in self.measures:
            for job_id in last:
                if over_mw > 0 and (found := self._measure(measure, job_id, chosen, over_mw)):
                    over_mw -= self._left_mw(job_id, chosen) - _draws(*found)
                    if job_id in chosen:
                        slowed[job_id] = chosen[job_id]
                    chosen[job_id] = found
        left_mw = self._spare(last, chosen, slowed, -over_mw)
        self._relax(last, chosen, left_mw)
        for job_id in last:
            if job_id in chosen:
                kind, mode = chosen[job_id]
                yield self.ask(job_id, kind, mode, stands=kind == SUSPEND)

    def _spare(
        self,
        last: Sequence[str],
        chosen: dict[str, tuple[str, Mode]],
        slowed: dict[str, tuple[str, Mode]],
        left_mw: int,
    ) -> int:
        """Nobody is ended, nor suspended, for whom the watts are there now: all that it draws, else
        what it would have drawn by an earlier measure."""
        for kind in (END, SUSPEND):
            for job_id in [j for j in reversed(last) if j in chosen and chosen[j][0] == kind]:
                if self.runs[job_id].draw_mw <= left_mw:
                    left_mw -= self.runs[job_id].draw_mw
                    del chosen[job_id]
                elif job_id in slowed and _draws(*slowed[job_id]) <= left_mw:
                    left_mw -= _draws(*slowed[job_id])
                    chosen[job_id] = slowed[job_id]
        return left_mw

    def _relax(
        self, last: Sequence[str], chosen: dict[str, tuple[str, Mode]], left_mw: int
    ) -> None:
        """Nobody is slowed more than need be."""
        for job_id in [j for j in reversed(last) if j in chosen and chosen[j][0] == CLOCK]:
            if left_mw > 0:
                before_mw = chosen[job_id][1].draw_mw
                best = self._highest(job_id, before_mw + left_mw)
                left_mw -= best.draw_mw - before_mw
                chosen[job_id] = CLOCK, best
                if best.draw_mw == self.runs[job_id].draw_mw:
                    del chosen[job_id]

    def _left_mw(self, job_id: str, chosen: dict[str, tuple[str, Mode]]) -> int:
        return _draws(*chosen[job_id]) if job_id in chosen else self.runs[job_id].draw_mw

    def _measure(
        self, measure: str, job_id: str, chosen: dict[str, tuple[str, Mode]], over_mw: int
    ) -> tuple[str, Mode] | None:
        """What a measure has to ask of a job: nothing where it gives up watts already."""
        run, draw_mw = self.runs[job_id], self._left_mw(job_id, chosen)
        falls = run.pending and run.pending[-1].draw_mw < run.draw_mw
        if not draw_mw or falls or not self._may(job_id, measure):
            return None
        if measure != CLOCK:
            return measure, self._mode(job_id)
        lower = [m for m in self.modes(job_id, run) if 10 * m.draw_mw <= 9 * draw_mw]
        if run.stands or not lower:
            return None
        lower.sort(key=lambda mode: mode.draw_mw, reverse=True)
        enough = (mode for mode in lower if draw_mw - mode.draw_mw >= over_mw)
        return CLOCK, next(enough, lower[-1])

    def _highest(self, job_id: str, most_mw: int) -> Mode:
        """The highest P-state that draws no more; that which it has only where it is to keep it."""
        run = self.runs[job_id]
        of_run = Mode(run.mode.ghz, run.mode.limit_s, run.draw_mw)
        lower = [m for m in self.modes(job_id, run) if 10 * m.draw_mw <= 9 * run.draw_mw]
        fits = [mode for mode in (*lower, of_run) if mode.draw_mw <= most_mw]
        return max(fits, key=lambda mode: mode.draw_mw)

    # Watts that were released ---------------------------------------------------------------------

    def run_on(self, region: Region) -> Iterator[tuple[str, Action]]:
        """Suspended jobs run on where no cap is exceeded and no reservation is delayed; the others
        reserve watts, and are expected to run on then: never, where no cap has them. One that is
        suspended for an operator may run on at any moment."""
        waiting = [j for j in self._first_to_have_watts() if self._is_to_wait(j)]
        for job_id in waiting:
            run = self.runs[job_id]
            region.expect(run.cluster, run.arrival, self.now_s + max(run.left_s, 1.0))
        later: dict[str, float] = {}
        for job_id in waiting:
            run = self.runs[job_id]
            if run.is_to_stand:
                continue
            left_s = max(run.left_s, 1.0)
            own = Wants(run.arrival, run.cluster, left_s, run.mode.draw_mw)
            if self._may(job_id, RESUME) and region.has(*own):
                yield self.ask(job_id, RESUME, run.mode, stands=False)
                self._draws_on(region, job_id)
                continue
            start_s = region.earliest_watts(*own)
            self._keep(region, own, start_s)
            if start_s < inf or not run.draw_mw:  # a job that draws may run until it answers
                later[job_id] = start_s + left_s
        # Not before all are served: from then on its own watts are kept for one that may still
        # draw, and would count twice for the next one.
        for job_id, release_s in later.items():
            region.expect(self.runs[job_id].cluster, self.runs[job_id].arrival, release_s)

    def _keep(self, region: Region, own: "Wants", start_s: float) -> None:
        for budget in region.over(own.cluster) if start_s < inf else ():
            kept = Kept(start_s, start_s + own.duration_s, own.draw_mw)
            budget.keep(own.arrival, kept)

    def to_run_on(self) -> list[Run]:
        """Those that are suspended for caps alone, and not asked to run on."""
        waiting = [self.runs[j] for j in self._first_to_have_watts() if self._is_to_wait(j)]
        return [run for run in waiting if not run.is_to_stand]

    def _is_to_wait(self, job_id: str) -> bool:
        return self.runs[job_id].stands and self.runs[job_id].will_stand

    def _draws_on(self, region: Region, job_id: str) -> None:
        """What was reserved for it is drawn by it."""
        run = self.runs[job_id]
        for budget in region.over(run.cluster):
            budget.kept.pop(run.arrival, None)
        region.replace(run.cluster, run.arrival, run.release_s, run.draw_mw)

    def _first_to_be_raised(self) -> list[str]:
        """The same; where watts are shared, whoever gains most a watt."""
        first = self._first_to_have_watts()
        return sorted(first, key=self._gain_per_mw, reverse=True) if self.shares else first

    def _gain_per_mw(self, job_id: str) -> float:
        """In a second of bounded slowdown."""
        run = self.runs[job_id]
        own = next(m for m in self.modes(job_id, run) if m.ghz == run.wanted_ghz)
        length_s = max(60.0, own.limit_s)
        gain = 1 / length_s - own.limit_s / run.mode.limit_s / length_s
        return gain / max(own.draw_mw - run.draw_mw, 1)

    def clock_up(self, region: Region) -> Iterator[tuple[str, Action]]:
        """After the pass: the highest P-state that was wanted, or is worth it, whose watts nobody
        draws or has reserved until the limit as it is."""
        for job_id in self._first_to_be_raised():
            run = self.runs[job_id]
            if run.pending or run.stands or not run.mode.ghz < run.wanted_ghz:
                continue
            if not self._may(job_id, CLOCK):
                continue
            for mode in sorted(self.modes(job_id, run), reverse=True):
                more_mw = mode.draw_mw - run.mode.draw_mw
                is_wanted = mode.ghz == run.wanted_ghz
                is_worth_it = is_wanted or 10 * run.mode.draw_mw <= 9 * mode.draw_mw
                is_higher = run.mode.ghz < mode.ghz <= run.wanted_ghz
                rest_s = run.ends_s - self.now_s
                if is_higher and is_worth_it and region.has(-1, run.cluster, rest_s, more_mw):
                    yield self.ask(job_id, CLOCK, mode, stands=False)
                    more = Stay(-2 - run.arrival, any_shape(), (), run.ends_s, more_mw)
                    region.clusters[run.cluster].stays.append(more)
                    break


class Wants(NamedTuple):
    """Watts on a cluster from now on."""

    arrival: int
    cluster: str
    duration_s: float
    draw_mw: int


def _draws(kind: str, mode: Mode) -> int:
    return mode.draw_mw if kind == CLOCK else 0

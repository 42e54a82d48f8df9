"""Watts that are freed for jobs that wait for watts alone, held to the rules: which job they are
freed for and what is asked of which is taken as it was decided, that it may be is worked out anew.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from coplace.v1.placement_pb2 import VERDICT_ACTION, PlacementDecided

from tests.core.figures import Known, Mode, licences_of
from tests.core.plain import Budget, Kept, Lack, Region, Stay, Waiting
from tests.core.plain_state import require
from tests.core.runs import ANSWERED_WITHIN_S, ASKED_AGAIN_AFTER_S, CLOCK, Acting, Action, Run, Runs

_FOR: Final = re.compile(r"so that (\S+) may start")
_MOST_TIMES: Final = 3  # what all would draw of a cap


# Of a cap that is short: from when on, what there is then, and until when, 0 for ever.
_Figures = tuple[int, int, int]


class FreedWatts(NamedTuple):
    """For which entry, since when, and what was asked of whom, by job id and number."""

    entry: Waiting
    asked_s: float
    asked: tuple[tuple[str, int], ...]

    def coming(self, runs: Runs) -> Iterator[tuple[Run, int]]:
        """The runs of which no answer is known yet, with what is to come."""
        for job_id, number in self.asked:
            run = runs.get(job_id)
            found = [a for a in run.pending if a.number == number] if run else []
            for action in found:
                assert run is not None
                yield run, run.draw_mw - action.draw_mw

    def put_into(self, budgets: Iterable[Budget], runs: Runs) -> None:
        """Keep what is there of it, until its limit."""
        coming = list(self.coming(runs))
        for budget in budgets:
            if self.entry.cluster in budget.clusters:
                later_mw = sum(mw for run, mw in coming if run.cluster in budget.clusters)
                draw_mw = max(self.entry.draw_mw - later_mw, 0)
                until_s = self.asked_s + self.entry.limit_s
                budget.keep(-2 - self.entry.arrival, Kept(self.asked_s, until_s, draw_mw))


@dataclass
class Sharing:
    """Of one region; `id_of` is of which job an arrival is."""

    known: Known
    runs: Runs
    id_of: Callable[[int], str]
    freed: list[FreedWatts] = field(default_factory=list)

    def begin(self, now_s: float, waits: set[int]) -> None:
        """A job that starts, leaves, or had watts freed long ago has none."""
        self.freed = [
            each
            for each in self.freed
            if each.entry.arrival in waits and now_s < each.asked_s + ASKED_AGAIN_AFTER_S
        ]

    def keep(self, budgets: Sequence[Budget], now_s: float) -> None:
        """What is kept of those that are awaited."""
        for each in self.freed:
            is_in_time = now_s < each.asked_s + ANSWERED_WITHIN_S
            if is_in_time and any(True for _ in each.coming(self.runs)):
                each.put_into(budgets, self.runs)

    def made(
        self, decisions: Iterable[PlacementDecided], acting: Acting, stood: Region
    ) -> Iterator[tuple[str, Action]]:
        """What is asked of whom at the end of a pass, after which the region is so."""
        found: dict[str, list[PlacementDecided]] = {}
        for one in decisions:
            named = _FOR.search(one.reason) if one.verdict == VERDICT_ACTION else None
            if named:
                found.setdefault(named[1], []).append(one)
        for job_id, asked in found.items():
            region = self._now(stood, acting.now_s)
            entry = self._entry(job_id, asked, region, acting)
            done = [acting.ask(a.job_id, CLOCK, self._mode(a), stands=False) for a in asked]
            numbered = tuple((helper, action.number) for helper, action in done)
            self.freed.append(FreedWatts(entry, acting.now_s, numbered))
            yield from done
        self.keep(stood.budgets, acting.now_s)

    def _now(self, stood: Region, now_s: float) -> Region:
        """The same beside what was asked since."""
        region = deepcopy(stood)
        for run in self.runs.values():
            if run.pending and run.pending[-1].asked_s == now_s:
                region.replace(run.cluster, run.arrival, run.release_s, run.draw_mw)
        self.keep(region.budgets, now_s)
        return region

    def _entry(
        self, job_id: str, asked: Sequence[PlacementDecided], region: Region, acting: Acting
    ) -> Waiting:
        """The entry that watts are freed for: one that lacked watts alone, and may start then."""
        arrivals = {e.arrival for e in region.waiting if self.id_of(e.arrival) == job_id}
        had = {each.entry.arrival for each in self.freed}
        require(not arrivals & had, f"watts are freed for {job_id} again")
        entries = [e for e in sorted(region.waiting) if e.arrival in arrivals]
        problems = [self._problem(entry, asked, region, acting) for entry in entries]
        require("" in problems, f"watts are freed for {job_id} by {asked}: {problems}")
        return entries[problems.index("")]

    def _problem(
        self, entry: Waiting, asked: Sequence[PlacementDecided], stood: Region, acting: Acting
    ) -> str:
        """What speaks against it; empty for nothing."""
        region, helpers = deepcopy(stood), {a.job_id: self.runs[a.job_id] for a in asked}
        against = region.why_not(entry)
        if not against or against & {"room", "promise"}:
            return f"against it is {against or 'nothing'}"
        lacks = sorted(map(_in_figures, region.lacks(entry)))
        told = [(entry.draw_mw, lacks)] * len(asked)
        if (found := list(map(_told, asked))) != told:
            return f"{found} is asked, should be {told}"
        lost = 0.0
        for one in asked:
            run, mode = helpers[one.job_id], self._mode(one)
            if problem := self._why_not_of(one.job_id, run, mode, entry, region, acting):
                return problem
            later_s = max(run.release_s, _release_s(run, mode, acting.now_s))
            region.replace(run.cluster, run.arrival, later_s, mode.draw_mw)
            lost += self._lost(one.job_id, run, mode)
        if lost >= 1 / max(60.0, entry.limit_s):
            return f"{lost} is lost"
        return self._why_not_then(entry, stood, region)

    def _why_not_of(
        self, job_id: str, run: Run, mode: Mode, entry: Waiting, region: Region, acting: Acting
    ) -> str:
        may = run.is_confirmed and not (run.pending or run.stands or run.is_to_stand)
        if not may or not run.may_be_asked(CLOCK, acting.lost, acting.now_s):
            return f"{job_id} may not be asked"
        if not (mode.ghz < run.mode.ghz and 10 * mode.draw_mw <= 9 * run.draw_mw):
            return f"{job_id} runs as {run.mode} already, is to run as {mode}"
        if run.priority > self.known.jobs[self.id_of(entry.arrival)].asked.priority:
            return f"{job_id} is of a higher priority"
        promise = region.promises.get(run.cluster)
        others = promise if promise and promise.arrival != entry.arrival else None
        then_s = _release_s(run, mode, acting.now_s)
        if others and run.release_s <= others.start_s < then_s:
            return f"{job_id} stays on nodes that are promised"
        mine = licences_of(self.known.jobs[job_id].asked)
        held = (b for b in region.licences if run.cluster in b.clusters and b.licence in dict(mine))
        others_s = [k.begin_s for b in held for a, k in b.kept.items() if a != entry.arrival]
        if any(run.release_s <= begin_s < then_s for begin_s in others_s):
            return f"{job_id} keeps licences that are promised"
        return ""

    def _why_not_then(self, entry: Waiting, stood: Region, region: Region) -> str:
        """Who may not start, whoever is promised less than before, or too many for a cap."""
        if lacks := region.lacks(entry):
            return f"it lacks {lacks} then"
        for budget in region.budgets:
            budget.kept.pop(entry.arrival, None)
            most_mw = _MOST_TIMES * (budget.cap_mw(region.now_s) - budget.idle_mw)
            full_mw = self._full_mw(budget) + entry.draw_mw
            if entry.cluster in budget.clusters and full_mw > most_mw:
                return f"too many share {budget.name}"
        until_s = region.now_s + entry.limit_s
        stay = Stay(entry.arrival, entry.shape, (), until_s, entry.draw_mw)
        region.clusters[entry.cluster].stays.append(stay)
        for budget, before in zip(region.budgets, stood.budgets, strict=True):
            if _least_mw(budget, region) < min(_least_mw(before, stood), 0):
                return f"somebody is promised less under {budget.name}"
        return ""

    def _full_mw(self, budget: Budget) -> int:
        """What all that hold nodes there would draw at the P-state that they want."""
        return sum(
            max(run.draw_mw, run.mode.draw_mw, self._at(job_id, run, run.wanted_ghz).draw_mw)
            for job_id, run in self.runs.items()
            if run.cluster in budget.clusters
        )

    def _lost(self, job_id: str, run: Run, mode: Mode) -> float:
        """Of bounded slowdown a second."""
        own_s = self._at(job_id, run, run.wanted_ghz).limit_s
        return (own_s / run.mode.limit_s - own_s / mode.limit_s) / max(60.0, own_s)

    def _mode(self, asked: PlacementDecided) -> Mode:
        return self._at(asked.job_id, self.runs[asked.job_id], asked.action.freq_ghz)

    def _at(self, job_id: str, run: Run, ghz: float) -> Mode:
        return self.known.mode(job_id, run.cluster, ghz, sum(count for _, count in run.units))


def _told(asked: PlacementDecided) -> tuple[int, list[_Figures]]:
    """What is needed by the entry that watts are freed for, and what there is of it."""
    shortages = asked.action.power.shortages
    [needed_mw] = {round(1000 * shortage.needed_w) for shortage in shortages}
    return needed_mw, sorted((s.at_us, round(1000 * s.available_w), s.until_us) for s in shortages)


def _in_figures(lack: Lack) -> _Figures:
    until_us = round(lack.until_s * 1e6) if lack.until_s < inf else 0
    return round(lack.at_s * 1e6), round(lack.left_mw), until_us


def _release_s(run: Run, mode: Mode, now_s: float) -> float:
    return run.done(Action(0, CLOCK, mode, False, now_s), now_s).ends_s


def _least_mw(budget: Budget, region: Region) -> float:
    """What is left at any time from now on."""
    times = budget.drops(region.now_s, float("inf"))
    return min(budget.left_mw(s, region._drawing(budget, s)) for s in times)

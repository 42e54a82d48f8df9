"""What is asked of jobs that run, and why: a cap that fell below what they draw, watts that were
released, an operator.

Where more is committed under a cap than it allows, the measures are taken in their order: jobs of
the lowest priority first, of these the one that started last; each as little as is enough. When
watts are released it is the other way about: suspended jobs run on before others are clocked up
again, highest priority and earliest start first, and neither delays a reservation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from shared.domain.cap_measures import Measure
from shared.placement.budgets.layer import BudgetLayer
from shared.placement.budgets.reserved import KeptWatts
from shared.placement.decide.outcomes import ActionAsked
from shared.placement.decide.refusals import Refusals
from shared.placement.evaluate.layer import EvaluateLayer
from shared.placement.measures.asking import WORTH_IT, Asking
from shared.placement.measures.sharing import Sharing
from shared.placement.state.actions import (
    WATTS_RETURNED,
    Action,
    ActionCause,
    ActionKind,
    CapShortage,
    CauseKind,
)
from shared.placement.state.candidate import Candidate
from shared.placement.state.caps import Covered, Declared
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord
from shared.placement.state.layer import StateLayer
from shared.scheduling.power import Budgets
from shared.streams.state.state import State

# In budgets: jobs that draw more than at the beginning of the round.
_CLOCKED_UP: Final = -(1 << 60)


@dataclass(frozen=True, slots=True)
class _Excess:
    """How much more is committed under a cap than it allows, beside what was asked to fall."""

    covered: Covered
    declared: Declared
    committed_mw: int
    cap_mw: int
    silent_nodes: int

    @property
    def cause(self) -> ActionCause:
        """Return why less is asked for: what is committed, and the cap."""
        cap = self.declared.cap
        lacks = CapShortage(
            scope=cap.scope,
            name=cap.name,
            needed_mw=self.committed_mw,
            available_mw=self.cap_mw,
            declared_by=cap.author,
            reason=cap.reason,
            silent_nodes=self.silent_nodes,
        )
        return ActionCause(CauseKind.OVER_CAP, caps=(lacks,))


class MeasureLayer:
    """Asks, each thing once, and keeps what is reserved for jobs that wait."""

    def __init__(
        self,
        kept: State,
        state: StateLayer,
        evaluation: EvaluateLayer,
        budgets: BudgetLayer,
    ) -> None:
        self._job_table, self._models, self._rules = state.jobs, state.models, state.models.rules
        self._margin, self._meters, self._caps = budgets.margin, budgets.meters, budgets.caps
        self._reserved = budgets.reserved
        self._asking = Asking(state.jobs, state.models, evaluation.clusters)
        self._sharing = Sharing(kept, state, budgets, self._asking)

    def due_s(self) -> Iterator[float]:
        """Yield when something that was not answered or was refused lets others be asked, or be
        asked again, and when the watts are there that are kept for suspended jobs."""
        for job, _ in self._job_table.allocations.running():
            times_s = [
                action.asked_s + self._rules.now.action_timeout_s for action in job.run.actions
            ]
            times_s += [each.since_s + self._asking.retry_s for each in job.run.refusals]
            yield from (at_s for at_s in times_s if at_s > self._now_s)
        yield from self._sharing.due_s()
        yield from (k.start_s for k in self._reserved.of_suspended if k.start_s > self._now_s)

    def before_pass(self, now_s: float) -> Iterator[ActionAsked]:
        """Ask jobs for what operators and caps want of them, and let suspended jobs run on."""
        self._asking.now_s = now_s
        self._reserved.of_suspended.clear()
        self._sharing.begin()
        running = self._job_table.allocations.running()
        yield from self._requeue_for_operators(running)
        yield from self._suspend_for_operators(running)
        for excess in self._excesses():
            yield from self._reduce(excess)
        stopped = [(job, placed) for job, placed in running if _stands_still(job)]
        for job, placed in stopped:
            self._job_table.allocations.expect(job, self._now_s + placed.left_s)
        to_run_on = [(job, placed) for job, placed in stopped if job.requests.suspend is None]
        if to_run_on:
            yield from self._run_on(sorted(to_run_on, key=_last_to_suffer))

    def after_pass(self, refusals: Refusals) -> Iterator[ActionAsked]:
        """Free watts for jobs that lack nothing else; else clock jobs up by what is left. What the
        pass reserved is noted."""
        plan = refusals.plan
        self._reserved.note(plan)
        if freed := list(self._sharing.free_watts(refusals)):
            yield from freed
            return
        slowed = [
            (job, placed)
            for job, placed in self._job_table.allocations.running()
            if not (job.run.pending or job.run.is_suspended or placed.silent_units)
            and 0 < placed.freq_ghz < placed.wanted_ghz
        ]
        slowed.sort(key=_last_to_suffer)
        for job, placed in (
            self._sharing.in_order(slowed) if self._rules.now.cap_sharing else slowed
        ):
            if self._asking.may_ask(job, placed, ActionKind.SET_PSTATE):
                budgets = plan.schedulers[placed.cluster].budgets
                yield from self._clock_up(job, placed, budgets)

    @property
    def _now_s(self) -> float:
        return self._asking.now_s

    # Caps that fell -------------------------------------------------------------------------------

    def _excesses(self) -> Iterator[_Excess]:
        """Yield the excess of each cap, one after the other: what is asked for one counts for the
        next."""
        for covered, declared in self._models.caps.items():
            cap_mw = self._caps.allowed_mw(declared.cap, self._now_s)
            drawn_mw = sum(
                held.drawn_mw
                for name, held in self._job_table.allocations.occupancy.items()
                if covered.covers(self._models.clusters[name])
            )
            committed_mw = self._models.idle_mw(covered) + drawn_mw
            committed_mw += self._margin.of_what_runs(covered)
            if committed_mw > cap_mw:
                silent_nodes = self._meters.under(covered).nodes
                yield _Excess(covered, declared, committed_mw, cap_mw, silent_nodes)

    def _reduce(self, excess: _Excess) -> Iterator[ActionAsked]:
        """Take measures until what was asked is enough."""
        running = [
            (job, placed)
            for job, placed in self._job_table.allocations.running()
            if excess.covered.covers(self._models.clusters[placed.cluster])
        ]
        running.sort(key=_last_to_suffer, reverse=True)
        over_mw = excess.committed_mw - excess.cap_mw
        over_mw -= sum(
            job.run.drawn_mw - job.run.drawn_after_mw(awaited)
            for job, awaited in self._coming(running)
        )
        if over_mw > 0:
            for job, placed, action in self._chosen(running, over_mw, excess.cause):
                yield self._asking.ask(job, placed, action)

    def _chosen(
        self,
        running: Sequence[tuple[JobRecord, JobAllocation]],
        over_mw: int,
        cause: ActionCause,
    ) -> Iterator[tuple[JobRecord, JobAllocation, Action]]:
        """Yield what each of the running jobs, in this order, is asked to do; a measure that saves
        more than one before it takes its place."""
        chosen: dict[int, Action] = {}
        slowed: dict[int, Action] = {}
        for measure in self._rules.now.cap_measures:
            for job, placed in running:
                before = chosen.get(job.arrival)
                drawn_mw = job.run.drawn_mw if before is None else before.drawn_mw
                action = self._measure(measure, job, placed, drawn_mw, over_mw, cause)
                if action is not None:
                    chosen[job.arrival] = action
                    over_mw -= drawn_mw - action.drawn_mw
                    if before is not None and not before.stops:
                        slowed[job.arrival] = before
        left_mw = _spare(chosen, slowed, running, -over_mw)
        self._relax(chosen, running, left_mw)
        for job, placed in running:
            if job.arrival in chosen:
                yield job, placed, chosen[job.arrival]

    def _relax(
        self,
        chosen: dict[int, Action],
        running: Sequence[tuple[JobRecord, JobAllocation]],
        left_mw: int,
    ) -> None:
        """Slow nobody more than need be, now that others are stopped."""
        for job, placed in reversed(running):
            action = chosen.get(job.arrival)
            if action is None or action.kind is not ActionKind.SET_PSTATE or left_mw <= 0:
                continue
            if job.run.drawn_mw - action.drawn_mw <= left_mw:
                del chosen[job.arrival]
                left_mw -= job.run.drawn_mw - action.drawn_mw
                continue
            most_mw = min(action.drawn_mw + left_mw, round(WORTH_IT * job.run.drawn_mw))
            modes = [m for m in self._asking.modes(job, placed) if m.draw_mw <= most_mw]
            best = max(modes, key=_draw)
            left_mw -= best.draw_mw - action.drawn_mw
            chosen[job.arrival] = self._asking.set_pstate(job, best, action.cause)

    def _coming(
        self, running: Iterable[tuple[JobRecord, JobAllocation]]
    ) -> Iterator[tuple[JobRecord, Action]]:
        """Return the jobs of which something was asked that may be answered yet, with what that
        is."""
        since_s = self._now_s - self._rules.now.action_timeout_s
        awaited = ((job, job.run.pending) for job, _ in running)
        return ((job, each) for job, each in awaited if each and each.asked_s >= since_s)

    def _measure(
        self,
        measure: Measure,
        job: JobRecord,
        placed: JobAllocation,
        drawn_mw: int,
        over_mw: int,
        cause: ActionCause,
    ) -> Action | None:
        """Return what a measure asks of a job that draws so much by what was chosen before it; None
        where it has nothing to ask."""
        is_falling = job.run.pending and job.run.drawn_after_mw(job.run.pending) < job.run.drawn_mw
        if not drawn_mw or is_falling or over_mw <= 0:
            return None
        match measure:
            case Measure.LOWER_FREQUENCY:
                lower = self._lower(job, placed, drawn_mw, over_mw)
                return None if lower is None else self._asking.set_pstate(job, lower, cause)
            case Measure.SUSPEND:
                return self._if_it_may(job, placed, ActionKind.SUSPEND, cause, stops=True)
            case Measure.END:
                return self._if_it_may(job, placed, ActionKind.END, cause, stops=False)

    def _if_it_may(
        self,
        job: JobRecord,
        placed: JobAllocation,
        kind: ActionKind,
        cause: ActionCause,
        *,
        stops: bool,
    ) -> Action | None:
        if not self._asking.may_ask(job, placed, kind):
            return None
        return self._asking.action(job, placed, kind, cause, stops=stops)

    def _lower(
        self, job: JobRecord, placed: JobAllocation, drawn_mw: int, over_mw: int
    ) -> Candidate | None:
        """Return the highest P-state that is enough, else the one that draws least; None where no
        other one draws a tenth less, its resource manager refused one, or nobody meters what it
        does."""
        if not self._asking.may_set_pstate(job, placed):
            return None
        modes = self._asking.modes(job, placed)
        lower = [m for m in modes if m.draw_mw <= WORTH_IT * drawn_mw]
        if not placed.freq_ghz or not lower:
            return None
        enough = [m for m in lower if drawn_mw - m.draw_mw >= over_mw]
        return max(enough, key=_draw) if enough else min(lower, key=_draw)

    # Watts that are free again --------------------------------------------------------------------

    def _run_on(self, stopped: Sequence[tuple[JobRecord, JobAllocation]]) -> Iterator[ActionAsked]:
        """Let suspended jobs run on that fit beside what runs and is reserved; the others are kept
        watts from when these will be there, so that no later job takes them. Where they never are
        its nodes are expected back by nobody."""
        suspended = {job.arrival for job, _ in stopped}
        budgets = self._reserved.committed(self._now_s, suspended)
        for job, placed in stopped:
            under = Budgets(budgets[placed.cluster])
            draw_mw, left_s = placed.counted_mw, placed.left_s
            if (
                self._asking.may_ask(job, placed, ActionKind.RESUME)
                and under.has(draw_mw, self._now_s + left_s, job.arrival)
                and self._margin.allows(job, placed, draw_mw, self._now_s + left_s, self._now_s)
            ):
                action = self._asking.action(
                    job, placed, ActionKind.RESUME, WATTS_RETURNED, stops=False
                )
                under.release(job.arrival)
                yield self._asking.ask(job, placed, action)
                under.hold(job.arrival, job.run.releases_s, draw_mw)
                continue
            start_s = _earliest(under, draw_mw, left_s, self._now_s, job.arrival)
            if start_s < inf:
                under.reserve(job.arrival, start_s, left_s, draw_mw)
                kept = KeptWatts(placed.cluster, job.arrival, start_s, left_s, draw_mw)
                self._reserved.of_suspended.append(kept)
            if start_s < inf or not job.run.drawn_mw:  # a job that draws may run until it answers
                self._job_table.allocations.expect(job, start_s + left_s)

    def _clock_up(
        self, job: JobRecord, placed: JobAllocation, budgets: Budgets
    ) -> Iterator[ActionAsked]:
        """Ask for the highest P-state up to the one that is wanted whose watts are there."""
        drawn_mw = job.run.drawn_mw
        if budgets.any and budgets.undrawn_mw <= 0:
            return
        higher = [
            mode
            for mode in self._asking.modes(job, placed)
            if placed.freq_ghz < mode.freq_ghz <= placed.wanted_ghz
        ]
        for mode in sorted(higher, key=_frequency, reverse=True):
            more_mw = mode.draw_mw - drawn_mw
            is_worth_it = mode.freq_ghz == placed.wanted_ghz or (
                drawn_mw <= WORTH_IT * mode.draw_mw
            )
            if (
                is_worth_it
                and budgets.has(more_mw, placed.ends_s, -1)
                and self._margin.allows(job, placed, mode.draw_mw, placed.ends_s, self._now_s)
            ):
                budgets.hold(_CLOCKED_UP - job.arrival, placed.ends_s, more_mw)
                action = self._asking.set_pstate(job, mode, WATTS_RETURNED)
                yield self._asking.ask(job, placed, action)
                return

    # Operators ------------------------------------------------------------------------------------

    def _requeue_for_operators(
        self, running: Iterable[tuple[JobRecord, JobAllocation]]
    ) -> Iterator[ActionAsked]:
        for job, placed in running:
            if job.requests.requeue is not None and self._asking.may_ask(
                job, placed, ActionKind.REQUEUE
            ):
                kept = job.run.will_be_suspended
                cause = ActionCause(CauseKind.REQUESTED, job.requests.requeue)
                action = self._asking.action(job, placed, ActionKind.REQUEUE, cause, stops=kept)
                yield self._asking.ask(job, placed, action)

    def _suspend_for_operators(
        self, running: Iterable[tuple[JobRecord, JobAllocation]]
    ) -> Iterator[ActionAsked]:
        for job, placed in running:
            if job.requests.suspend is None or job.run.will_be_suspended:
                continue
            if self._asking.may_ask(job, placed, ActionKind.SUSPEND):
                cause = ActionCause(CauseKind.REQUESTED, job.requests.suspend)
                action = self._asking.action(job, placed, ActionKind.SUSPEND, cause, stops=True)
                yield self._asking.ask(job, placed, action)


def _spare(
    chosen: dict[int, Action],
    slowed: Mapping[int, Action],
    running: Sequence[tuple[JobRecord, JobAllocation]],
    left_mw: int,
) -> int:
    """Stop no job, least of all for ever, for which there are watts now that others are stopped: as
    it is, or slowed as it was to be before. Return what is left then, mW."""
    stopped = [job for job, _ in reversed(running) if _is_stopping(chosen.get(job.arrival))]
    for job in sorted(stopped, key=lambda job: chosen[job.arrival].kind is not ActionKind.END):
        lower = slowed.get(job.arrival)
        if job.run.drawn_mw <= left_mw:
            del chosen[job.arrival]
            left_mw -= job.run.drawn_mw
        elif lower is not None and lower.drawn_mw <= left_mw:
            chosen[job.arrival] = lower
            left_mw -= lower.drawn_mw
    return left_mw


def _is_stopping(action: Action | None) -> bool:
    return action is not None and action.stops


def _stands_still(job: JobRecord) -> bool:
    """Return whether a job is suspended and was not asked to run on."""
    return job.run.is_suspended and job.run.will_be_suspended


def _last_to_suffer(one: tuple[JobRecord, JobAllocation]) -> tuple[int, float, int]:
    """Return the sort key of running jobs: which gets watts first, and gives them up last."""
    job, placed = one
    return -job.job.priority, placed.since_s, job.arrival


def _draw(mode: Candidate) -> int:
    return mode.draw_mw


def _frequency(mode: Candidate) -> float:
    return mode.freq_ghz


def _earliest(
    under: Budgets, draw_mw: int, duration_s: float, from_s: float, arrival: int
) -> float:
    """Return when all budgets have the watts, if limits hold; infinite where one never has."""
    start_s = from_s
    while (later_s := under.earliest(draw_mw, duration_s, start_s, arrival)) > start_s:
        if later_s == inf:
            return inf
        start_s = later_s
    return start_s

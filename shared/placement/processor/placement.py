"""Placement: folds what the region knows, and decides at the end of each round."""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, inf
from typing import Final

from shared.catalogue.event import Event, Publish
from shared.catalogue.policy_settings import PolicySettings
from shared.placement.budgets import meters, overshoots
from shared.placement.decide.planning import Planning
from shared.placement.explain.queries import Queries
from shared.placement.measures import sharing
from shared.placement.processor.layers import Layers
from shared.placement.processor.phases import DECIDE, FOLLOW_UP, RoundInHand
from shared.placement.state import plans, repair, silent_managers
from shared.streams.stages.quarantine import Fault
from shared.streams.stages.stage import Round
from shared.streams.state.state import State

_SOON_S: Final = 1e-3


class Placement:
    """Decides for one region. A job's first outcome, a start or why it waits, comes at the end of
    the round in which it arrived; the start of one that waits follows in a later round.

    What a round decides is a function of its events and of the state that `changes` writes.
    """

    def __init__(
        self, restored: Mapping[str, bytes], policy: PolicySettings, remember_days: float
    ) -> None:
        self.layers = Layers(restored, policy, remember_days)
        self._now_s = 0.0

    @property
    def planning(self) -> Planning:
        """Return what a planner reads."""
        return self.layers.decide.planning

    @property
    def queries(self) -> Queries:
        """Return what answers questions."""
        return self.layers.explain.queries

    def handle(self, event: Event) -> Iterable[Publish]:
        """Take an event in. Raises RejectedError, EarlyError and AlreadyAppliedError as the folds
        do."""
        self.layers.decide.published.play_before(event.payload)
        for fold in self.layers.folds[type(event.payload)]:
            fold(event, event.payload)
        return ()

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Withdraw what did not come true, evaluate the jobs that arrived, start what may start,
        and publish why the others wait."""
        layers, self._now_s = self.layers, ended.now_s
        layers.explain.queries.begin_round()
        decided = layers.decide.published.covers(ended)
        round_ = RoundInHand(ended, layers.explain.decisions(ended), decided)
        phases = FOLLOW_UP if decided else (*FOLLOW_UP, *DECIDE)
        published = [publish for phase in phases for publish in phase(layers, round_)]
        layers.explain.queries.end_round(round_.last_pass)
        return published

    def changes(self) -> Mapping[str, bytes | None]:
        """Return the records that changed since the last call."""
        return self.layers.changes()

    def wake_us(self) -> int | None:
        """Return when something falls due although nothing happens: see the layers."""
        is_behind = self.layers.evaluate.has_stale or self.layers.decide.published.is_played
        soon = [self._now_s + _SOON_S] if is_behind else []
        next_s = min([*soon, *self.layers.due_s()], default=inf)
        return round_at_us(next_s) if next_s < inf else None

    def next_start_us(self) -> int | None:
        """Return when time alone changes next what a waiting job may do."""
        next_s = min(self.layers.decide.times.due_s(), default=inf)
        return round_at_us(next_s) if next_s < inf else None

    def suspects(self) -> Sequence[str]:
        """Return the jobs that the end of this round may start, by arrival."""
        jobs = self.layers.state.jobs
        return [job.job.job_id for job in jobs.waiting() + jobs.allocations.without_draw()]

    def hold_back(self, subject: str, fault: Fault, _ended: Round) -> None:
        """Hold a job that the end of the round fails over."""
        jobs = self.layers.state.jobs
        job = jobs.get(subject)
        if job is None:
            return
        on = job.run.allocation
        if job.waits and not job.requests.isolated:
            repair_it = "report it, and release the job after the repair"
            reason = f"deciding on it failed, stack {fault.digest[:12]}: {repair_it}: {fault.what}"
            jobs.isolate(job, reason)
        elif on is not None and on.draw_mw is None:
            jobs.estimate(job, 0)


def round_at_us(due_s: float) -> int:
    """Return when a round is to end so that its time is not before what falls due."""
    ends_us = ceil(due_s * 1e6)
    return ends_us if ends_us / 1e6 >= due_s else ends_us + 1


def repaired(restored: Mapping[str, bytes], now_us: int) -> Mapping[str, bytes | None]:
    """Return what to change in a state of a wrong clock, so that nothing in it lies ahead of
    now."""
    state = State(restored)
    for part in (repair, silent_managers, plans, meters, overshoots, sharing):
        part.repair(state, now_us)
    return state.changes()

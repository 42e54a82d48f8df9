"""The decisions of a round, as events."""

from dataclasses import dataclass
from typing import Final

from coplace.v1.placement_pb2 import (
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_REJECTED,
    VERDICT_WITHDRAWN,
    PlacementDecided,
    Verdict,
)

from shared.catalogue.event import Event, Publish
from shared.placement.decide.interactive_jobs import ExpectedStart
from shared.placement.decide.outcomes import ActionAsked, Cancelled, Withdrawn
from shared.placement.explain.constraints import MOST_CANDIDATES
from shared.placement.explain.pending_words import misfit_words
from shared.placement.explain.power_words import action_words, write_shortage
from shared.placement.explain.state_words import withdrawal_words
from shared.placement.state.actions import MESSAGES
from shared.placement.state.announcements import OUTPUT, SOURCE
from shared.placement.state.job_record import JobRecord
from shared.placement.state.policy_in_force import PolicyInForce
from shared.streams.stages.stage import Round

_DECIDED: Final = PlacementDecided.DESCRIPTOR.full_name


@dataclass(frozen=True, slots=True)
class Decisions:
    """Writes the decisions of one round."""

    ended: Round
    rules: PolicyInForce
    degradation_version: str

    def of(self, outcome: Withdrawn | Cancelled | ActionAsked) -> Publish:
        """Return what was decided beside a pass, as an event."""
        match outcome:
            case Withdrawn():
                return self._withdrawn(outcome)
            case Cancelled(job):
                return self.cancelled(job)
            case ActionAsked():
                return self._asked(outcome)

    def cancelled(self, job: JobRecord) -> Publish:
        """Return that a job must not start any more, and must end where it was put."""
        decided = self.new(job, VERDICT_CANCELLED)
        if (on := job.run.allocation) is not None:
            decided.cluster, decided.grant = on.cluster, on.grant
        cancelled = job.requests.cancelled
        decided.reason = f"cancelled: {cancelled}" if cancelled else "cancelled"
        return self.publish(job, decided)

    def rejected(self, job: JobRecord) -> Publish:
        """Return that a job fits on no cluster, and is not started."""
        decided, misfits = self.new(job, VERDICT_REJECTED), job.evaluated.misfits
        decided.reason = misfit_words(misfits)
        decided.misfits.extend(each.message() for each in misfits[:MOST_CANDIDATES])
        return self.publish(job, decided)

    def new(self, job: JobRecord, verdict: Verdict.ValueType, reason: str = "") -> PlacementDecided:
        """Return a decision on a job that says nothing else yet; `reason` is what its reason is
        compared by next time."""
        job.notice.verdict, job.notice.reason = verdict, reason
        decided = self._blank(job, verdict)
        decided.policy = self.rules.ranking_of(job.evaluated.update).policy
        return decided

    def publish(self, job: JobRecord, decided: PlacementDecided, suffix: str = "") -> Publish:
        """Return a decision as an event; the `suffix` of its id differs for two of one round on one
        job."""
        name = f"{_DECIDED}/{decided.job_id}/{decided.attempt}"
        event = Event(
            id=f"{SOURCE}/{name}/{decided.round}{suffix}",
            source=SOURCE,
            time_us=decided.decided_at_us,
            key=decided.job_id,
            payload=decided,
            traceparent=job.traceparent,
        )
        return Publish(OUTPUT, event)

    def _withdrawn(self, outcome: Withdrawn) -> Publish:
        job, start = outcome.job, outcome.start
        if not outcome.is_void:
            job.notice.verdict, job.notice.reason = VERDICT_WITHDRAWN, ""
        decided = self._blank(job, VERDICT_WITHDRAWN)
        decided.attempt, decided.grant = start.attempt, start.grant
        decided.is_void, decided.cluster = outcome.is_void, start.cluster
        decided.reason = withdrawal_words(start.reason)
        return self.publish(job, decided, f"/withdrawn/{start.grant}/{start.cluster}")

    def _asked(self, outcome: ActionAsked) -> Publish:
        job, on, action = outcome.job, outcome.allocation, outcome.action
        decided = self._blank(job, VERDICT_ACTION)
        decided.cluster, decided.grant = on.cluster, on.grant
        decided.reason = action_words(action)
        asked = decided.action
        asked.kind, asked.number = MESSAGES[action.kind], action.number
        asked.freq_ghz, asked.walltime_s = action.freq_ghz, action.walltime_s
        asked.draw_w = action.drawn_mw / 1000
        asked.power.SetInParent()
        for lacks in action.cause.caps:
            write_shortage(asked.power.shortages.add(), lacks)
        return self.publish(job, decided, f"/action/{action.number}")

    def _blank(self, job: JobRecord, verdict: Verdict.ValueType) -> PlacementDecided:
        return PlacementDecided(
            job_id=job.job.job_id,
            attempt=job.job.attempt,
            round=self.ended.number,
            verdict=verdict,
            policy=self.rules.now.policy,
            decided_at_us=self.ended.ended_at_us,
            degradation_model_version=self.degradation_version,
            array_job_id=job.job.array_id,
            array_index=job.job.array_index,
            changed_at_us=job.job.changed_at_us,
        )


def write_expected(decided: PlacementDecided, expected: ExpectedStart) -> None:
    """Write when an interactive job is expected to start that does not start now."""
    decided.expected_start_us = round(expected.start_s * 1e6) if expected.is_known else 0
    if decided.verdict != VERDICT_REJECTED:
        decided.reason = f"{decided.reason}; interactive: {expected.words}"

"""Decisions as events, with what was weighed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, isinf
from typing import Final

from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_CAPACITY,
    CONSTRAINT_KIND_DRAINED_NODES,
    CONSTRAINT_KIND_LOST_CLUSTER,
    CONSTRAINT_KIND_MISFIT,
    CONSTRAINT_KIND_NEIGHBOUR,
    CONSTRAINT_KIND_NOT_TRIED,
    CONSTRAINT_KIND_PLAN,
    CONSTRAINT_KIND_POLICY,
    PREDICTION_BASIS_FIRST_RUN,
    PREDICTION_BASIS_SIGNATURE,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_REJECTED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    OwnPState,
    PlacementDecided,
    PowerShortage,
    PowerShortages,
    Reservation,
    Verdict,
)
from coplace.v1.placement_pb2 import Candidate as CandidateMessage

from shared.catalogue.event import Event, Publish
from shared.domain.cluster import Cluster
from shared.domain.folding import fold
from shared.domain.job import Job
from shared.domain.node import NodeNames
from shared.domain.times import in_utc
from shared.placement.candidates.candidate import Candidate
from shared.placement.candidates.eligible import Choice, Choices, favourite, preference
from shared.placement.candidates.misfits import in_words, misfit
from shared.placement.jobs.actions import MESSAGES as ACTION_KINDS
from shared.placement.jobs.actions import Action
from shared.placement.jobs.grants import Void
from shared.placement.jobs.tracked import Placed, Tracked
from shared.placement.power.caps import MESSAGES
from shared.placement.reasons.constraints import Constraint, WaitReason, tell
from shared.placement.reasons.explanation import Refusals, WhyNot, unexplained
from shared.placement.reasons.notices import JobSituation
from shared.placement.reasons.pending_reasons import PendingReasons
from shared.placement.rules_in_force import RulesInForce
from shared.placement.waiting import WaitingJobs
from shared.scheduling.backfill import Start
from shared.scheduling.power import Shortage
from shared.scheduling.problem import unit_cores
from shared.scheduling.wait_queue import Entry
from shared.streams.stages.stage import Round

OUTPUT: Final = "placement.decisions"
SOURCE: Final = "placement"
_DECIDED: Final = PlacementDecided.DESCRIPTOR.full_name
# A decision on many clusters tells of these; `coplace why` tells of all.
MOST_CANDIDATES: Final = 32
_MOST_NODES: Final = 2**32 - 1
_MOST_CO_RUNNERS: Final = 32
_STARTS: Final = WhyNot()
_DID_NOT_FIT: Final = Constraint(
    CONSTRAINT_KIND_MISFIT, "did not fit or was lost when the job was ranked"
)
# What a job may choose from, each with why it does not start there.
Weighed = Sequence[tuple[Choice, WhyNot]]
# Where more nodes would help: those that are drained too.
_TOO_FEW: Final = (CONSTRAINT_KIND_CAPACITY, CONSTRAINT_KIND_NEIGHBOUR)


@dataclass(frozen=True, slots=True)
class Decisions:
    """Writes the decisions of one round."""

    ended: Round
    rules: RulesInForce
    degradation_version: str

    def withdrawn(self, job: Tracked, placed: Placed) -> Publish:
        """The start that a job was granted is asked back."""
        job.announced, job.told = VERDICT_WITHDRAWN, ""
        start = Void(job.job.attempt, placed.grant, placed.cluster, job.asked_back)
        return self._withdrawn(job, start, is_void=False)

    def void(self, job: Tracked, void: Void) -> Publish:
        """A start must not take place any more, of this attempt of the job or of an earlier one."""
        return self._withdrawn(job, void, is_void=True)

    def cancelled(self, job: Tracked) -> Publish:
        """A job must not start any more, and must end where it was put."""
        decided = self.new(job, VERDICT_CANCELLED)
        if job.placed is not None:
            decided.cluster, decided.grant = job.placed.cluster, job.placed.grant
        decided.reason = f"cancelled: {job.cancelled}" if job.cancelled else "cancelled"
        return self.publish(job, decided)

    def rejected(self, job: Tracked) -> Publish:
        """A job fits on no cluster, and is not started."""
        decided = self.new(job, VERDICT_REJECTED)
        decided.reason = in_words(job.misfits)
        decided.misfits.extend(each.message() for each in job.misfits[:MOST_CANDIDATES])
        return self.publish(job, decided)

    def action(
        self, job: Tracked, placed: Placed, action: Action, caps: Iterable[PowerShortage]
    ) -> Publish:
        """Something is to be done to a job that runs."""
        decided = self._blank(job, VERDICT_ACTION)
        decided.cluster, decided.grant = placed.cluster, placed.grant
        decided.reason = f"{action.words}: {action.reason}"
        asked = decided.action
        asked.kind, asked.number = ACTION_KINDS[action.kind], action.number
        asked.freq_ghz, asked.walltime_s = action.freq_ghz, action.walltime_s
        asked.draw_w = action.drawn_mw / 1000
        asked.power.shortages.extend(caps)
        return self.publish(job, decided, f"/action/{action.number}")

    def new(self, job: Tracked, verdict: Verdict.ValueType, what: str = "") -> PlacementDecided:
        """A decision on a job that says nothing else yet; `what` is the news in its reason."""
        job.announced, job.told = verdict, what
        decided = self._blank(job, verdict)
        decided.policy = self.rules.ranking_of(job.weighed).policy
        return decided

    def publish(self, job: Tracked, decided: PlacementDecided, kind: str = "") -> Publish:
        """The decision as an event; `kind` tells apart two of one round on one job."""
        name = f"{_DECIDED}/{decided.job_id}/{decided.attempt}"
        event = Event(
            id=f"{SOURCE}/{name}/{decided.round}{kind}",
            source=SOURCE,
            time_us=decided.decided_at_us,
            key=decided.job_id,
            payload=decided,
            traceparent=job.traceparent,
        )
        return Publish(OUTPUT, event)

    def _withdrawn(self, job: Tracked, start: Void, *, is_void: bool) -> Publish:
        decided = self._blank(job, VERDICT_WITHDRAWN)
        decided.attempt, decided.grant, decided.is_void = start.attempt, start.grant, is_void
        decided.cluster, decided.reason = start.cluster, start.reason
        return self.publish(job, decided, f"/withdrawn/{start.grant}/{start.cluster}")

    def _blank(self, job: Tracked, verdict: Verdict.ValueType) -> PlacementDecided:
        return PlacementDecided(
            job_id=job.job.job_id,
            attempt=job.job.attempt,
            round=self.ended.number,
            verdict=verdict,
            policy=self.rules.now.policy,
            decided_at_us=self.ended.ended_at_us,
            degradation_model_version=self.degradation_version,
        )


@dataclass(frozen=True, slots=True)
class Beside:
    """The jobs that have part of a job's nodes too, and what is predicted to come of it."""

    job_ids: Sequence[str] = ()
    slowdown_ratio: float = 1.0


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Writes what came of one pass over the queue."""

    decisions: Decisions
    clusters: Mapping[str, Cluster]
    node_names: Mapping[str, NodeNames]
    pending_reasons: PendingReasons
    waiting_jobs: WaitingJobs
    refusals: Refusals

    def reasons(self, job: Tracked, start: Start | None) -> dict[str, WhyNot]:
        """Why each of a waiting job's choices does not start; empty for the one that does."""
        choices, entries = self.waiting_jobs.choices(job), self.waiting_jobs.entries(job)
        return {c.cluster: self._told(job, c, entries.get(c.cluster), start) for c in choices}

    def weighed(
        self, job: Tracked, reasons: Mapping[str, WhyNot], start: Start | None = None
    ) -> Weighed:
        """A waiting job's most favoured choices with these reasons; that of its start in the mode
        in which it starts."""
        choices = most_favoured(self.waiting_jobs.choices(job), reasons)
        told = [(choice, reasons[choice.cluster]) for choice in choices]
        return told if start is None else [(_as_started(c, start), why) for c, why in told]

    def instead_of(self, job: Tracked, own: Candidate, start: Start) -> OwnPState | None:
        """The P-state that is best for a job on the cluster where it starts at a lower one, and the
        caps that refuse it there; None where it starts at that one."""
        entry = self.waiting_jobs.entry(job, start.cluster)
        if entry is None or entry.draw_mw == start.entry.draw_mw:
            return None
        why_not = self.refusals.no_power(start, entry)
        told = OwnPState(freq_ghz=own.freq_ghz)
        self._tell_why_not(told, why_not)
        return told

    def candidate_message(self, job: Tracked, choice: Choice, why_not: WhyNot) -> CandidateMessage:
        """What was weighed, and what stood against it, in words and in figures."""
        found = candidate_message(job.job, self.clusters[choice.cluster], choice, why_not)
        if why_not.shortages:
            self._tell_caps(found.power, why_not.shortages)
        return found

    def _tell(self, decided: PlacementDecided, job: Tracked, weighed: Weighed) -> None:
        """Let a decision tell what was weighed: messages are made in it, since one that is put
        into another is copied."""
        told = decided.candidates
        for choice, why_not in weighed:
            found = told.add()
            _write_candidate(found, job.job, self.clusters[choice.candidate.cluster], choice)
            self._tell_why_not(found, why_not)
        decided.candidates_left_out = len(job.candidates) - len(weighed)

    def _tell_why_not(self, found: CandidateMessage | OwnPState, why_not: WhyNot) -> None:
        if why_not.constraints:
            found.constraint = why_not.text
            tell(found.constraints, why_not.constraints)
        if why_not.shortages:
            self._tell_caps(found.power, why_not.shortages)

    def shortage_message(self, shortage: Shortage) -> PowerShortage:
        """A cap that does not let a job start, in figures."""
        found = PowerShortage()
        self._write_shortage(found, shortage)
        return found

    def _tell_caps(self, power: PowerShortages, shortages: Iterable[Shortage]) -> None:
        told = power.shortages
        for shortage in shortages:
            self._write_shortage(told.add(), shortage)

    def _write_shortage(self, found: PowerShortage, shortage: Shortage) -> None:
        cap, until_s = shortage.cap, shortage.until_s
        found.scope, found.name = MESSAGES[cap.scope], cap.name
        found.needed_w, found.available_w = shortage.needed_mw / 1000, shortage.available_mw / 1000
        found.at_us = round(shortage.at_s * 1e6)
        if until_s < inf:
            found.until_us = round(until_s * 1e6)
        found.reserved_for = self.refusals.of_reservation(shortage.reserved_for)
        found.declared_by, found.reason = cap.author, cap.reason

    def started(
        self,
        job: Tracked,
        placed: Placed,
        start: Start,
        weighed: Weighed,
        instead_of: OwnPState | None,
        beside: Beside,
    ) -> Publish:
        """A job starts, alone or beside others."""
        decided = self.decisions.new(job, VERDICT_START)
        decided.cluster, decided.grant = start.cluster, placed.grant
        decided.freq_ghz = placed.freq_ghz
        if instead_of is not None:
            decided.instead_of.CopyFrom(instead_of)
        if placed.plan_round is not None:
            decided.plan_round = placed.plan_round
        decided.node_indices.extend(placed.nodes)
        names = self.node_names[start.cluster]
        if names:
            decided.node_names.extend(fold(map(names.name, placed.nodes)))
        decided.node_units.extend(placed.units)
        decided.cores_per_node = unit_cores(job.job, self.clusters[start.cluster])
        decided.walltime_s = placed.limit_s
        decided.co_runner_job_id = next(iter(beside.job_ids), "")
        decided.co_runner_job_ids.extend(beside.job_ids[:_MOST_CO_RUNNERS])
        decided.predicted_slowdown_ratio = beside.slowdown_ratio
        decided.promised_slowdown_ratio = job.promised
        decided.backfilled = start.backfilled
        timeout_us = round(self.decisions.rules.now.start_timeout_s * 1e6)
        decided.start_by_us = decided.decided_at_us + timeout_us if timeout_us else 0
        self._tell(decided, job, weighed)
        return self.decisions.publish(job, decided)

    def of_waiting(self, job: Tracked, situation: JobSituation) -> Publish:
        """A job waits, for nodes or for what keeps it out of the queue, or starts no more."""
        if situation.verdict == VERDICT_CANCELLED:
            return self.decisions.cancelled(job)
        if situation.verdict == VERDICT_REJECTED:
            return self.decisions.rejected(job)
        decided = self.decisions.new(job, situation.verdict, situation.what)
        pending_reason, reasons = self.pending_reasons.of_job(job), self.reasons(job, None)
        if pending_reason is not None:
            reason = WaitReason([pending_reason.constraint])
        else:
            reason = reason_of(self.waiting_jobs.choices(job), reasons)
        decided.reason = reason.text
        tell(decided.constraints, reason.constraints, reason.cluster)
        self._tell(decided, job, self.weighed(job, reasons))
        reservation = self.reservation(job)
        if reservation is not None:
            decided.reservation.CopyFrom(reservation)
        return self.decisions.publish(job, decided)

    def reservation(self, job: Tracked) -> Reservation | None:
        """The earliest nodes that the pass reserved for a job, None when it has no reservation."""
        promised = self.refusals.plan.reservations_of(job.arrival)
        own = [(each.start_s, name, each) for name, each in promised.items()]
        if not own:
            return None
        start_s, name, reservation = min(own, key=lambda option: option[:2])
        return Reservation(cluster=name, nodes=reservation.nodes, start_at_us=round(start_s * 1e6))

    def _told(
        self, job: Tracked, choice: Choice, entry: Entry | None, start: Start | None
    ) -> WhyNot:
        """Whatever goes wrong with an explanation is told in its place: the decision holds."""
        try:
            return self._why_not(job, choice, entry, start)
        except Exception as error:  # noqa: BLE001 a defect of the words must not stop the deed
            return WhyNot([unexplained(error)])

    def _why_not(
        self, job: Tracked, choice: Choice, entry: Entry | None, start: Start | None
    ) -> WhyNot:
        if entry is None:
            kept = self._why_no_entry(job, choice)
            return WhyNot() if kept is None else WhyNot([kept])
        if start is None or entry.order < start.entry.order:
            why = self.refusals.why(choice.cluster, entry)
            if why.constraints[0].kind not in _TOO_FEW:
                return why
            drained = self._drained(choice.cluster)
            return why if drained is None else why._replace(constraints=[*why.constraints, drained])
        if choice.cluster == start.cluster:
            return _STARTS
        return _not_tried(start.cluster)

    def _why_no_entry(self, job: Tracked, choice: Choice) -> Constraint | None:
        if not choice.waits:
            return self._why_excluded(job, choice)
        pending_reason = self.pending_reasons.of_job(job) or self.pending_reasons.of_entry(
            job, choice.candidate
        )
        if pending_reason:
            return pending_reason.constraint
        if self.waiting_jobs.is_held_back(choice):
            from_s = choice.not_before_s
            words = f"planned for {in_utc(from_s)}, not before"
            return Constraint(CONSTRAINT_KIND_PLAN, words, until_s=from_s)
        return self._misfit(job, choice.cluster)

    def _misfit(self, job: Tracked, cluster: str) -> Constraint | None:
        found = misfit(job.job, self.clusters[cluster])
        return Constraint.of_misfit(found) if found else None

    def _drained(self, cluster: str) -> Constraint | None:
        """That nodes of a cluster are drained; None where none is."""
        words = self.pending_reasons.drained(cluster)
        return Constraint(CONSTRAINT_KIND_DRAINED_NODES, words) if words else None

    def _why_excluded(self, job: Tracked, choice: Choice) -> Constraint:
        name = choice.cluster
        problem = self._misfit(job, name)
        if problem is None and (closed := self.pending_reasons.closed.get(name)):
            problem = Constraint(CONSTRAINT_KIND_LOST_CLUSTER, closed)
        if problem is None and name in self.pending_reasons.unranked_clusters(job):
            problem = self._drained(name)
        if problem is not None:
            return problem
        if isinf(choice.part_eff):
            return _DID_NOT_FIT
        choices = self.waiting_jobs.choices(job)
        if planned := [other for other in choices if other.is_planned]:
            words = f"planned for {' or '.join(other.cluster for other in planned)}"
            return Constraint(CONSTRAINT_KIND_PLAN, words, by=favourite(planned).cluster)
        best = favourite(choices).cluster
        policy = self.decisions.rules.ranking_of(job.weighed).policy
        words = f"policy {policy}: only the best cluster, {best}"
        return Constraint(CONSTRAINT_KIND_POLICY, words, by=best)


@lru_cache(maxsize=256)  # half of all that is weighed stands behind what starts
def _not_tried(started_on: str) -> WhyNot:
    """Why a job does not start where its entry stands behind that of this cluster."""
    words = f"not tried: the job started on {started_on}, which stands before it in the queue"
    return WhyNot([Constraint(CONSTRAINT_KIND_NOT_TRIED, words, by=started_on)])


def _as_started(choice: Choice, start: Start) -> Choice:
    """A choice in the mode in which it starts, if it is the one that does."""
    if choice.cluster != start.cluster:
        return choice
    return choice._replace(candidate=choice.candidate.drawing(start.entry.draw_mw))


def most_favoured(choices: Choices, reasons: Mapping[str, WhyNot]) -> Choices:
    """At most MOST_CANDIDATES as they stand: where a job starts, which nothing speaks against, and
    those that it would go to first."""
    if len(choices) <= MOST_CANDIDATES:
        return choices
    order = sorted(choices, key=lambda c: (bool(reasons[c.cluster].constraints), *preference(c)))
    kept = {choice.cluster for choice in order[:MOST_CANDIDATES]}
    return tuple(choice for choice in choices if choice.cluster in kept)


def reason_of(choices: Iterable[Choice], reasons: Mapping[str, WhyNot]) -> WaitReason:
    """Why a job does not start: that of its most favoured cluster."""
    first = favourite(choices).cluster
    return WaitReason(reasons[first].constraints, first)


def candidate_message(job: Job, on: Cluster, choice: Choice, why_not: WhyNot) -> CandidateMessage:
    """What was weighed, and what stood against it; without what more there is to say of caps."""
    found = CandidateMessage(constraint=why_not.text)
    _write_candidate(found, job, on, choice)
    tell(found.constraints, why_not.constraints)
    return found


def _write_candidate(found: CandidateMessage, job: Job, on: Cluster, choice: Choice) -> None:
    """Tell what was weighed. There are a thousand a round: see `tell`."""
    candidate = choice.candidate
    found.cluster, found.freq_ghz = candidate.cluster, candidate.freq_ghz
    found.basis = PREDICTION_BASIS_SIGNATURE if candidate.known else PREDICTION_BASIS_FIRST_RUN
    found.time_s, found.power_w = candidate.time_s, candidate.power_w
    found.energy_j, found.distance = candidate.energy_j, candidate.distance
    found.part_eff, found.tier = choice.part_eff, choice.tier
    found.walltime_s, found.nodes = candidate.walltime_s, min(candidate.nodes, _MOST_NODES)
    found.planned_time_s, found.planned_energy_j = candidate.planned_s, candidate.planned_j
    if candidate.time_sd is not None:
        found.time_sd = candidate.time_sd
    if candidate.power_sd is not None:
        found.power_sd = candidate.power_sd
    if candidate.coefficients_version:
        found.coefficients_version = candidate.coefficients_version
    if candidate.power_model_version:
        found.power_model_version = candidate.power_model_version
    if job.has_unknown_memory_on(on):
        found.memory_unknown = True

"""What came of one pass over the queue, as decisions with all that was compared."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isinf
from typing import Final

from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_CAPACITY,
    CONSTRAINT_KIND_DRAINED_NODES,
    CONSTRAINT_KIND_MISFIT,
    CONSTRAINT_KIND_NEIGHBOUR,
    CONSTRAINT_KIND_NOT_TRIED,
    CONSTRAINT_KIND_PLAN,
    CONSTRAINT_KIND_POLICY,
    PREDICTION_BASIS_FIRST_RUN,
    PREDICTION_BASIS_SIGNATURE,
    VERDICT_CANCELLED,
    VERDICT_REJECTED,
    VERDICT_START,
    OwnPState,
    PlacementDecided,
    PowerShortages,
    Reservation,
)
from coplace.v1.placement_pb2 import Candidate as CandidateMessage

from coplace_client.millicores import beside_cores, whole_cores
from shared.catalogue.event import Publish
from shared.domain.cluster import Cluster
from shared.domain.folding import fold
from shared.domain.job import Job
from shared.domain.node import NodeNames
from shared.domain.times import in_utc
from shared.placement.decide.choices import Choice, Choices, favourite, preference
from shared.placement.decide.layer import Starting
from shared.placement.decide.outcomes import Started
from shared.placement.decide.pending_reasons import PendingReasons
from shared.placement.decide.waiting_jobs import WaitingJobs
from shared.placement.evaluate.misfits import misfit
from shared.placement.explain.constraints import MOST_CANDIDATES, Constraint, WaitReason, write
from shared.placement.explain.decisions import Decisions
from shared.placement.explain.notices import JobSituation
from shared.placement.explain.pending_words import PendingReasonWords, closed_constraint
from shared.placement.explain.power_words import nameplate_words, write_shortage
from shared.placement.explain.refusals import RefusalWords, WhyNot, unexplained
from shared.placement.state.actions import CapShortage
from shared.placement.state.candidate import Candidate
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_partitions import first_with, only_in
from shared.placement.state.job_record import JobRecord
from shared.scheduling.backfill import Start
from shared.scheduling.gangs import nodes_of_parts
from shared.scheduling.power import Shortage
from shared.scheduling.problem import unit_millicores
from shared.scheduling.wait_queue import Entry

_MOST_NODES: Final = 2**32 - 1
_MOST_CO_RUNNERS: Final = 32
_STARTS: Final = WhyNot()
_DID_NOT_FIT: Final = Constraint(
    CONSTRAINT_KIND_MISFIT, "did not fit or was lost when the job was ranked"
)
# What a job may choose from, each with why it does not start there.
Compared = Sequence[tuple[Choice, WhyNot]]
# Where more nodes would help: those that are drained too.
_TOO_FEW: Final = (CONSTRAINT_KIND_CAPACITY, CONSTRAINT_KIND_NEIGHBOUR)


@dataclass(frozen=True, slots=True)
class PassDecisions:
    """Writes what came of one pass over the queue."""

    decisions: Decisions
    clusters: Mapping[str, Cluster]
    node_names: Mapping[str, NodeNames]
    pending_reasons: PendingReasons
    pending_words: PendingReasonWords
    waiting_jobs: WaitingJobs
    refusals: RefusalWords

    def reasons(self, job: JobRecord, start: Start | None) -> dict[str, WhyNot]:
        """Return why each of a waiting job's choices does not start; empty for the one that
        does."""
        choices, entries = self.waiting_jobs.choices(job), self.waiting_jobs.entries(job)
        return {c.cluster: self._why(job, c, entries.get(c.cluster), start) for c in choices}

    def before_start(self, starting: Starting) -> tuple[Compared, OwnPState | None]:
        """Return what is compared where a job starts, and the P-state that it would rather have:
        read before it has its nodes."""
        job, start = starting.job, starting.start
        compared = self.compared(job, self.reasons(job, start), start)
        return compared, self.instead_of(job, starting.choice.candidate, start)

    def compared(
        self, job: JobRecord, reasons: Mapping[str, WhyNot], start: Start | None = None
    ) -> Compared:
        """Return a waiting job's most favoured choices with these reasons; that of its start in the
        mode in which it starts."""
        choices = most_favoured(self.waiting_jobs.choices(job), reasons)
        found = [(choice, reasons[choice.cluster]) for choice in choices]
        return found if start is None else [(_as_started(c, start), why) for c, why in found]

    def instead_of(self, job: JobRecord, own: Candidate, start: Start) -> OwnPState | None:
        """Return the P-state that is best for a job on the cluster where it starts at a lower one,
        and the caps that refuse it there; None where it starts at that one."""
        entry = self.waiting_jobs.entry(job, start.cluster)
        if entry is None or entry.draw_mw == start.entry.draw_mw:
            return None
        why_not = self.refusals.no_power(start, entry)
        found = OwnPState(freq_ghz=own.freq_ghz)
        self._write_why_not(found, why_not)
        return found

    def candidate_message(
        self, job: JobRecord, choice: Choice, why_not: WhyNot
    ) -> CandidateMessage:
        """Return one compared choice, and why the job does not start there, in words and in
        figures."""
        found = candidate_message(job.job, self.clusters[choice.cluster], choice, why_not)
        self._write_nameplate(found, choice.candidate)
        if why_not.shortages:
            self._write_caps(found.power, why_not.shortages)
        return found

    def _write(self, decided: PlacementDecided, job: JobRecord, compared: Compared) -> None:
        """Write what was compared into a decision: messages are made in it, since one that is added
        to another is copied."""
        for choice, why_not in compared:
            found = decided.candidates.add()
            _write_candidate(found, job.job, self.clusters[choice.candidate.cluster], choice)
            self._write_nameplate(found, choice.candidate)
            self._write_why_not(found, why_not)
        decided.candidates_left_out = len(job.evaluated.candidates) - len(compared)

    def _write_nameplate(self, found: CandidateMessage, candidate: Candidate) -> None:
        """Write what counts under caps in place of what nobody knows."""
        if candidate.power_unknown and self.pending_reasons.models.is_capped(candidate.cluster):
            on = self.clusters[candidate.cluster]
            found.nameplate_power_w = on.most_node_w
            found.nameplate_derived = on.nameplate_is_derived

    def _write_why_not(self, found: CandidateMessage | OwnPState, why_not: WhyNot) -> None:
        if why_not.constraints:
            found.constraint = why_not.text
            write(found.constraints, why_not.constraints)
        if why_not.shortages:
            self._write_caps(found.power, why_not.shortages)

    def _write_caps(self, power: PowerShortages, shortages: Iterable[Shortage]) -> None:
        for shortage in shortages:
            lacks = CapShortage.of(shortage, self.refusals.of_reservation(shortage.reserved_for))
            write_shortage(power.shortages.add(), lacks)

    def started(
        self,
        outcome: Started,
        compared: Compared,
        instead_of: OwnPState | None,
    ) -> Publish:
        """Return that a job starts, alone or beside others."""
        job, placed, start = outcome.job, outcome.allocation, outcome.start
        beside = outcome.co_runners
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
        if job.job.parts:
            self._write_parts(decided, job, placed)
        millicores = unit_millicores(job.job, self.clusters[start.cluster])
        decided.cores_per_node = whole_cores(millicores)
        decided.millicores_per_unit = beside_cores(millicores)
        decided.walltime_s = placed.limit_s
        if job.job.parts:
            on, is_alone = self.clusters[start.cluster], not beside.job_ids
            closed = self.pending_reasons.refused_on(job, on.name)
            decided.partition = first_with(job.job, on, placed.nodes, closed, is_alone=is_alone)
        else:
            decided.partition = next(iter(placed.partitions), "")
        decided.co_runner_job_id = next(iter(beside.job_ids), "")
        decided.co_runner_job_ids.extend(beside.job_ids[:_MOST_CO_RUNNERS])
        decided.predicted_slowdown_ratio = beside.slowdown_ratio
        decided.promised_slowdown_ratio = job.guarantee.slowdown_ratio
        decided.backfilled = start.backfilled
        if outcome.predicted_s is not None:
            decided.predicted_runtime_s = outcome.predicted_s
        timeout_us = round(self.decisions.rules.now.start_timeout_s * 1e6)
        boot_us = round(placed.boot_s * 1e6)
        decided.start_by_us = decided.decided_at_us + boot_us + timeout_us if timeout_us else 0
        decided.boot_s = placed.boot_s
        decided.booting.extend(fold(map(names.name, outcome.booting)))
        self._write(decided, job, compared)
        return self.decisions.publish(job, decided)

    def _write_parts(
        self, decided: PlacementDecided, job: JobRecord, placed: JobAllocation
    ) -> None:
        """Write which nodes each part of a gang has, and of which partition."""
        cluster = self.clusters[decided.cluster]
        refused = self.pending_reasons.refused_on(job, decided.cluster)
        if self.pending_reasons.models.limited_partitions:
            refused = only_in(placed.partitions, refused, job.job, cluster)
        names = self.node_names[decided.cluster]
        owned = nodes_of_parts(job.job, cluster, placed.nodes, refused)
        partitions = placed.partitions or ("",) * len(owned)
        for part, own, partition in zip(job.job.parts, owned, partitions, strict=True):
            found = decided.parts.add(
                units=part.units, units_per_node=part.units_per_node, partition=partition
            )
            found.node_indices.extend(own)
            if names:
                found.node_names.extend(fold(map(names.name, own)))

    def of_waiting(self, job: JobRecord, situation: JobSituation) -> Publish:
        """Publish that a job waits, for nodes or for what keeps it out of the queue, or starts no
        more."""
        if situation.verdict == VERDICT_CANCELLED:
            return self.decisions.cancelled(job)
        if situation.verdict == VERDICT_REJECTED:
            return self.decisions.rejected(job)
        decided = self.decisions.new(job, situation.verdict, situation.what)
        pending_reason, reasons = self.pending_reasons.of_job(job), self.reasons(job, None)
        if pending_reason is not None:
            reason = WaitReason([self.pending_words(pending_reason).constraint])
        else:
            reason = reason_of(self.waiting_jobs.choices(job), reasons)
        decided.reason = reason.text
        write(decided.constraints, reason.constraints, reason.cluster)
        self._write(decided, job, self.compared(job, reasons))
        reservation = self.reservation(job)
        if reservation is not None:
            decided.reservation.CopyFrom(reservation)
        return self.decisions.publish(job, decided)

    def reservation(self, job: JobRecord) -> Reservation | None:
        """Return the earliest nodes that the pass reserved for a job, None when it has no
        reservation."""
        promised = self.refusals.refusals.plan.reservations_of(self.waiting_jobs.arrival(job))
        own = [(each.start_s, name, each) for name, each in promised.items()]
        if not own:
            return None
        start_s, name, reservation = min(own, key=lambda option: option[:2])
        return Reservation(cluster=name, nodes=reservation.nodes, start_at_us=round(start_s * 1e6))

    def _why(
        self, job: JobRecord, choice: Choice, entry: Entry | None, start: Start | None
    ) -> WhyNot:
        """Return why a choice does not start; an explanation that fails says so: the decision
        holds."""
        try:
            return self._why_not(job, choice, entry, start)
        except Exception as error:  # noqa: BLE001 a defect of the words must not stop the deed
            return WhyNot([unexplained(error)])

    def _why_not(
        self, job: JobRecord, choice: Choice, entry: Entry | None, start: Start | None
    ) -> WhyNot:
        if entry is None:
            kept = self._why_no_entry(job, choice)
            return WhyNot() if kept is None else WhyNot([kept])
        if start is None or entry.order < start.entry.order:
            why = self.refusals.why(choice.cluster, entry)
            if why.shortages and choice.candidate.power_unknown:
                last = why.constraints[-1]
                words = f"{last.words}; {nameplate_words(self.clusters[choice.cluster])}"
                why = why._replace(constraints=[*why.constraints[:-1], last._replace(words=words)])
            if why.constraints[0].kind not in _TOO_FEW:
                return why
            drained = self._drained(choice.cluster)
            return why if drained is None else why._replace(constraints=[*why.constraints, drained])
        if choice.cluster == start.cluster:
            return _STARTS
        return _not_tried(start.cluster)

    def _why_no_entry(self, job: JobRecord, choice: Choice) -> Constraint | None:
        if not choice.waits:
            return self._why_excluded(job, choice)
        pending_reason = self.pending_reasons.of_job(job) or self.pending_reasons.of_entry(
            job, choice.candidate
        )
        if pending_reason:
            return self.pending_words(pending_reason).constraint
        if self.waiting_jobs.is_held_back(job, choice):
            from_s = choice.not_before_s
            words = f"planned for {in_utc(from_s)}, not before"
            return Constraint(CONSTRAINT_KIND_PLAN, words, until_s=from_s)
        return self._misfit(job, choice.cluster)

    def _misfit(self, job: JobRecord, cluster: str) -> Constraint | None:
        found = misfit(job.job, self.clusters[cluster])
        return Constraint.of_misfit(found) if found else None

    def _drained(self, cluster: str) -> Constraint | None:
        """Return the constraint that nodes of a cluster are drained; None where none is."""
        words = self.pending_words.drains(cluster)
        return Constraint(CONSTRAINT_KIND_DRAINED_NODES, words) if words else None

    def _why_excluded(self, job: JobRecord, choice: Choice) -> Constraint:
        name = choice.cluster
        problem = self._misfit(job, name)
        if problem is None and (closed := self.pending_reasons.closure(name)):
            problem = closed_constraint(name, closed)
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
        policy = self.decisions.rules.ranking_of(job.evaluated.update).policy
        words = f"policy {policy}: only the best cluster, {best}"
        return Constraint(CONSTRAINT_KIND_POLICY, words, by=best)


@lru_cache(maxsize=256)  # half of all that is compared is behind what starts
def _not_tried(started_on: str) -> WhyNot:
    """Return why a job does not start where its entry is behind that of this cluster."""
    words = f"not tried: the job started on {started_on}, which is before it in the queue"
    return WhyNot([Constraint(CONSTRAINT_KIND_NOT_TRIED, words, by=started_on)])


def _as_started(choice: Choice, start: Start) -> Choice:
    """Return a choice in the mode in which it starts, if it is the one that does."""
    if choice.cluster != start.cluster:
        return choice
    return choice._replace(candidate=choice.candidate.drawing(start.entry.draw_mw))


def most_favoured(choices: Choices, reasons: Mapping[str, WhyNot]) -> Choices:
    """Return at most MOST_CANDIDATES in their order: where a job starts, which nothing keeps from
    starting, and those that it would go to first."""
    if len(choices) <= MOST_CANDIDATES:
        return choices
    order = sorted(choices, key=lambda c: (bool(reasons[c.cluster].constraints), *preference(c)))
    kept = {choice.cluster for choice in order[:MOST_CANDIDATES]}
    return tuple(choice for choice in choices if choice.cluster in kept)


def reason_of(choices: Iterable[Choice], reasons: Mapping[str, WhyNot]) -> WaitReason:
    """Return why a job does not start: the reason of its most favoured cluster."""
    first = favourite(choices).cluster
    return WaitReason(reasons[first].constraints, first)


def candidate_message(job: Job, on: Cluster, choice: Choice, why_not: WhyNot) -> CandidateMessage:
    """Return one compared choice, and why the job does not start there, without the figures of
    caps."""
    found = CandidateMessage(constraint=why_not.text)
    _write_candidate(found, job, on, choice)
    write(found.constraints, why_not.constraints)
    return found


def _write_candidate(found: CandidateMessage, job: Job, on: Cluster, choice: Choice) -> None:
    """Write a compared choice. There are a thousand a round: see `write`."""
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
    if candidate.explores_from_ghz is not None:
        found.explores_from_ghz = candidate.explores_from_ghz
    if job.has_unknown_memory_on(on):
        found.memory_unknown = True

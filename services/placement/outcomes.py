"""Decisions as events, with what was weighed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from coplace.v1.placement_pb2 import (
    PREDICTION_BASIS_FIRST_RUN,
    PREDICTION_BASIS_SIGNATURE,
    VERDICT_QUEUED,
    VERDICT_START,
    PlacementDecided,
    Reservation,
)
from coplace.v1.placement_pb2 import Candidate as CandidateMessage

from services.placement.explanation import Refusals, excluded
from services.placement.jobs import Placed, Tracked
from services.placement.model import Candidate
from shared.domain.cluster import Cluster
from shared.messaging.event import Event, Publish
from shared.messaging.stage import Round
from shared.policies.easy import Start
from shared.policies.load import Reservation as Promise
from shared.policies.ranking import Policy

OUTPUT: Final = "placement.decisions"
SOURCE: Final = "placement"


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Writes the decisions of one round."""

    ended: Round
    policy: Policy
    degradation_version: str
    clusters: Mapping[str, Cluster]
    app_number: Callable[[str], int]
    refusals: Refusals

    def started(self, job: Tracked, placed: Placed, start: Start) -> Publish:
        """A job starts, alone or beside the job `start.host`."""
        decided = self._decided(job)
        decided.verdict = VERDICT_START
        decided.cluster = start.cluster
        decided.freq_ghz = job.candidate(start.cluster).freq_ghz
        decided.node_indices.extend(placed.nodes)
        cores = self.clusters[start.cluster].cores_for(shareable=job.job.shareable)
        decided.cores_per_node = cores
        decided.walltime_s = placed.limit_s
        decided.co_runner_job_id = start.host
        decided.predicted_slowdown_ratio = start.slowdown_ratio
        decided.backfilled = start.backfilled
        for candidate in job.candidates:
            self._weighed(decided, candidate, self._why_not(job, candidate, start))
        return self._publish(job, decided)

    def queued(self, job: Tracked, promises: Mapping[str, Promise]) -> Publish:
        """A job waits; `promises` are this pass's reservations by cluster."""
        decided = self._decided(job)
        decided.verdict = VERDICT_QUEUED
        reasons = {c.cluster: self._why_not(job, c, None) for c in job.candidates}
        first = min(job.candidates, key=lambda c: (not c.waits, c.tier, c.rank))
        decided.reason = f"{first.cluster}: {reasons[first.cluster]}"
        for candidate in job.candidates:
            self._weighed(decided, candidate, reasons[candidate.cluster])
        own = [(p.start_s, name, p) for name, p in promises.items() if p.arrival == job.arrival]
        if own:
            start_s, name, promise = min(own, key=lambda option: option[:2])
            start_at_us = round(start_s * 1e6)
            reservation = Reservation(cluster=name, nodes=promise.nodes, start_at_us=start_at_us)
            decided.reservation.CopyFrom(reservation)
        return self._publish(job, decided)

    def _decided(self, job: Tracked) -> PlacementDecided:
        return PlacementDecided(
            job_id=job.job.job_id,
            attempt=job.job.attempt,
            round=self.ended.number,
            policy=self.policy,
            decided_at_us=self.ended.ended_at_us,
            degradation_model_version=self.degradation_version,
        )

    def _why_not(self, job: Tracked, candidate: Candidate, start: Start | None) -> str:
        """Empty for the entry that started."""
        if not candidate.waits:
            best = min(job.candidates, key=lambda c: c.part_eff).cluster
            nodes = self.clusters[candidate.cluster].nodes
            return excluded(job.job, candidate, best, nodes, self.policy)
        entry = candidate.entry(job.job, job.arrival, self.app_number(job.job.app_id))
        if start is None or entry.order < start.entry.order:
            return self.refusals.why(candidate.cluster, entry)
        if candidate.cluster == start.cluster:
            return ""
        return f"not tried: the job started on {start.cluster}, which stands before it in the queue"

    def _weighed(self, decided: PlacementDecided, candidate: Candidate, why_not: str) -> None:
        basis = PREDICTION_BASIS_SIGNATURE if candidate.known else PREDICTION_BASIS_FIRST_RUN
        message = CandidateMessage(
            cluster=candidate.cluster,
            freq_ghz=candidate.freq_ghz,
            basis=basis,
            time_s=candidate.time_s,
            power_w=candidate.power_w,
            energy_j=candidate.energy_j,
            distance=candidate.distance,
            part_eff=candidate.part_eff,
            tier=candidate.tier,
            walltime_s=candidate.walltime_s,
            constraint=why_not,
            time_sd=candidate.time_sd,
            power_sd=candidate.power_sd,
            planned_time_s=candidate.planned_s,
            planned_energy_j=candidate.planned_j,
            coefficients_version=candidate.coefficients_version,
            power_model_version=candidate.power_model_version,
        )
        decided.candidates.append(message)

    def _publish(self, job: Tracked, decided: PlacementDecided) -> Publish:
        job_id, attempt = decided.job_id, decided.attempt
        event = Event(
            id=f"{SOURCE}/{decided.DESCRIPTOR.full_name}/{job_id}/{attempt}/{decided.round}",
            source=SOURCE,
            time_us=decided.decided_at_us,
            key=job_id,
            payload=decided,
            traceparent=job.traceparent,
        )
        return Publish(OUTPUT, event)

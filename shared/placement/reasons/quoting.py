"""What a job would have to expect: weighed as if it arrived now, played forward, not kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coplace.v1.placement_service_pb2 import QuotedPlacement, QuotedRange

from shared.domain.cluster import Cluster
from shared.domain.job import Dependency, Job
from shared.numerics.elementary import exp
from shared.numerics.normal import quantile
from shared.placement.candidates.candidate import Candidate, evaluate
from shared.placement.candidates.eligible import Choice, favourite
from shared.placement.candidates.misfits import Misfit, in_words, misfits, without_reference
from shared.placement.jobs.past_runs import (
    MOST_JOBS,
    TO_THEIR_LIMITS,
    ExpectedRuns,
    RunShares,
    region_shares,
    run_shares,
)
from shared.placement.jobs.table import JobTable
from shared.placement.jobs.tracked import Tracked
from shared.placement.model_store import ModelStore
from shared.placement.reasons.pending_reason import PendingReason
from shared.placement.reasons.pending_reasons import PendingReasons
from shared.placement.reasons.start_estimates import StartEstimate
from shared.placement.schedulers import Arriving
from shared.placement.waiting import WaitingJobs
from shared.scheduling.problem import core_share, unit_cores

_NINETY_FIVE: Final = quantile(0.95)
_NO_CLUSTER: Final = "no cluster is declared"
_NOT_FORESEEN: Final = "no start is foreseen: too many come before, or caps of power refuse it"


@dataclass(frozen=True, slots=True)
class QuotedJob:
    """A job that is asked about. `own` is what it is expected to run for, `region` what all are;
    `pending` is what would keep it out of the queue, and `is_refused` that this stays so until
    somebody acts."""

    tracked: Tracked
    own: RunShares
    region: RunShares
    clusters: Mapping[str, Cluster]
    max_slowdown: float
    choices: Mapping[str, Choice]
    arriving: Arriving
    misfits: tuple[Misfit, ...] = ()
    pending: str = ""
    is_refused: bool = False

    @property
    def arrival(self) -> int:
        """Its arrival number."""
        return self.tracked.arrival

    @property
    def runs(self) -> tuple[ExpectedRuns, ExpectedRuns, ExpectedRuns]:
        """For what the jobs of the region run for an early, an expected and a late start."""
        least = ExpectedRuns(self.region.low, is_least=True)
        return least, ExpectedRuns(self.region.middle), TO_THEIR_LIMITS


class Quoting:
    """Reads what a placement keeps, between rounds, and changes nothing."""

    def __init__(
        self,
        job_table: JobTable,
        waiting_jobs: WaitingJobs,
        pending_reasons: PendingReasons,
        models: ModelStore,
    ) -> None:
        self._job_table, self._waiting_jobs = job_table, waiting_jobs
        self._pending_reasons, self._models = pending_reasons, models

    def weighed(self, job: Job, awaits: tuple[Dependency, ...]) -> QuotedJob:
        """The job as it would be weighed if it arrived now."""
        tracked = Tracked(job, self._job_table.next_arrival, "", awaits=awaits, admitted=True)
        tracked.weighed, declared = self._models.updates.number, self._models.declared
        lacks = without_reference(job, declared) or misfits(job, declared.values())
        if declared and not lacks:
            [tracked.candidates] = self._evaluated(job)
        pending = self._pending_reasons.of_job(tracked) if not lacks else None
        kinds = self._waiting_jobs.kinds.copy()
        entries = self._waiting_jobs.arriving(tracked, kinds) if tracked.candidates else {}
        past = self._job_table.ended_last(MOST_JOBS)
        max_slowdown = self._models.rules.now.max_slowdown
        return QuotedJob(
            tracked=tracked,
            own=run_shares(job, past, max_slowdown),
            region=region_shares(past),
            clusters=declared,
            max_slowdown=max_slowdown if job.shareable else 1.0,
            choices={name: choice for name, (choice, _) in entries.items()},
            arriving=Arriving(kinds, {name: entry for name, (_, entry) in entries.items()}),
            misfits=lacks,
            pending=_told(lacks, pending, declared),
            is_refused=bool(lacks) or not declared or self._is_refused(job, pending),
        )

    def _evaluated(self, job: Job) -> list[tuple[Candidate, ...]]:
        models, rules = self._models, self._models.rules.now
        power_model, gone = models.power_model, models.undeclared
        return evaluate([job], models.per_cluster(), power_model, rules, gone)

    def _is_refused(self, job: Job, pending: PendingReason | None) -> bool:
        return pending is not None and (pending.lasting or job.account in self._models.refused)


def _told(
    lacks: Sequence[Misfit], pending: PendingReason | None, declared: Mapping[str, Cluster]
) -> str:
    if not declared:
        return _NO_CLUSTER
    if lacks:
        return in_words(lacks)
    return pending.constraint.words if pending else ""


def quoted_placement(
    quoted: QuotedJob, now_s: float, starts: Sequence[StartEstimate | None]
) -> QuotedPlacement:
    """What a job would have to expect, from the early, the expected and the late start: fewer where
    there was no time to work them out."""
    found = QuotedPlacement(
        shareable=quoted.tracked.job.shareable,
        reason=quoted.pending,
        misfits=[each.message() for each in quoted.misfits],
        is_refused=quoted.is_refused,
        slowdown_ratio=quoted.max_slowdown,
    )
    expected = [one.expected for one in starts if one is not None and one.expected is not None]
    if len(expected) == len(quoted.runs):
        low, middle, high = (one.start_s - now_s for one in expected)
        bounds = min(low, middle, high), max(low, middle, high)
        found.wait_s.CopyFrom(QuotedRange(low=bounds[0], expected=middle, high=bounds[1]))
        found.cluster = expected[1].cluster
    elif quoted.choices:
        found.cluster = favourite(quoted.choices.values()).cluster
        found.reason = _NOT_FORESEEN
    elif quoted.tracked.candidates and not quoted.is_refused:
        found.cluster = favourite(map(Choice.as_weighed, quoted.tracked.candidates)).cluster
    if found.cluster:
        _put_run(found, quoted)
    return found


def _put_run(found: QuotedPlacement, quoted: QuotedJob) -> None:
    """Its run on the cluster that it would go to, and what it draws there."""
    job, on = quoted.tracked.job, quoted.clusters[found.cluster]
    candidate = quoted.tracked.candidate(found.cluster)
    found.node_model, found.nodes = on.node_model, candidate.nodes
    found.cores_per_unit = unit_cores(job, on)
    found.freq_ghz, found.walltime_s = candidate.freq_ghz, candidate.walltime_s
    alone_s = candidate.walltime_s / quoted.max_slowdown
    high_s = min(quoted.own.high * alone_s * quoted.max_slowdown, candidate.walltime_s)
    run = QuotedRange(
        low=quoted.own.low * alone_s, expected=quoted.own.middle * alone_s, high=high_s
    )
    found.run_s.CopyFrom(run)
    power_w = candidate.power_w * candidate.nodes * core_share(job, on)
    off = exp(_NINETY_FIVE * (candidate.power_sd or 0.0))
    found.energy_j.CopyFrom(
        QuotedRange(
            low=power_w / off * run.low,
            expected=power_w * run.expected,
            high=power_w * off * run.high,
        )
    )
    found.power_sd_unknown = candidate.power_sd is None

"""What a job would have to expect: evaluated as if it arrived now, played forward, not kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from coplace.v1.placement_service_pb2 import QuotedPlacement, QuotedRange

from coplace_client.millicores import beside_cores, whole_cores
from shared.domain.cluster import Cluster
from shared.domain.job import Dependency, Job
from shared.domain.times import in_utc
from shared.numerics.elementary import exp
from shared.numerics.normal import quantile
from shared.placement.decide.choices import Choice, favourite
from shared.placement.decide.layer import DecideLayer
from shared.placement.decide.pending_reason import BeginsLater, PendingReason, is_lasting
from shared.placement.decide.schedulers import Arriving
from shared.placement.evaluate.layer import EvaluateLayer
from shared.placement.evaluate.misfits import misfits, without_reference
from shared.placement.evaluate.run_shares import (
    MOST_JOBS,
    TO_THEIR_LIMITS,
    ExpectedRuns,
    RunShares,
    region_shares,
    run_shares,
)
from shared.placement.explain.pending_words import PendingReasonWords, misfit_words
from shared.placement.explain.start_estimates import StartEstimate
from shared.placement.state.job_record import Evaluated, JobRecord, Life
from shared.placement.state.layer import StateLayer
from shared.placement.state.misfit import Misfit
from shared.scheduling.problem import core_share, unit_millicores

_NINETY_FIVE: Final = quantile(0.95)
_NO_CLUSTER: Final = "no cluster is declared"
_NOT_EXPECTED: Final = "no start is expected: too many come before, or caps of power refuse it"


@dataclass(frozen=True, slots=True)
class QuotedJob:
    """A job that is asked about. `own` is what it is expected to run for, `region` what all are;
    `pending` is what would keep it out of the queue, and `is_refused` that this stays so until
    somebody acts."""

    tracked: JobRecord
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
        """Return its arrival number."""
        return self.tracked.arrival

    @property
    def runs(self) -> tuple[ExpectedRuns, ExpectedRuns, ExpectedRuns]:
        """Return what the jobs of the region run for when it starts early, as expected and late."""
        least = ExpectedRuns(self.region.low, is_least=True)
        return least, ExpectedRuns(self.region.middle), TO_THEIR_LIMITS


class Quoting:
    """Reads what a placement keeps, between rounds, and changes nothing."""

    def __init__(
        self,
        state: StateLayer,
        evaluation: EvaluateLayer,
        decide: DecideLayer,
        words: PendingReasonWords,
    ) -> None:
        self._job_table, self._models = state.jobs, state.models
        self._evaluation, self._words = evaluation, words
        self._waiting_jobs, self._pending_reasons = decide.waiting_jobs, decide.pending_reasons

    def quoted(self, job: Job, awaits: tuple[Dependency, ...]) -> QuotedJob:
        """Return the job as it would be evaluated if it arrived now; one that waits already keeps
        its place."""
        models, known = self._models, self._job_table.get(job.job_id)
        waits = known if known is not None and known.waits else None
        arrival = self._job_table.next_arrival if waits is None else waits.arrival
        declared, update = models.declared, models.updates.number
        evaluated = Evaluated(update=update, admitted=True)
        tracked = JobRecord(job, arrival, "", Life(awaits=awaits), evaluated)
        lacks = without_reference(job, declared) or misfits(job, declared.values())
        if declared and not lacks:
            evaluated.candidates = self._evaluation.evaluated_alone(job)
        pending = self._pending_reasons.of_job(tracked) if not lacks else None
        if isinstance(pending, BeginsLater):  # it is played forward, and starts not before
            tracked.job = replace(job, begin_s=0.0)
            pending = self._pending_reasons.of_job(tracked)
        kinds = self._waiting_jobs.kinds.copy()
        entries = self._waiting_jobs.arriving(tracked, kinds) if evaluated.candidates else {}
        tracked.job = job
        past = self._job_table.ended_last(MOST_JOBS)
        max_slowdown = models.rules.now.max_slowdown
        return QuotedJob(
            tracked=tracked,
            own=run_shares(job, past, max_slowdown),
            region=region_shares(past),
            clusters=declared,
            max_slowdown=max_slowdown if job.shareable else 1.0,
            choices={name: choice for name, (choice, _) in entries.items()},
            arriving=Arriving(
                kinds,
                {name: entry for name, (_, entry) in entries.items()},
                instead_of=waits,
            ),
            misfits=lacks,
            pending=self._in_words(lacks, pending),
            is_refused=bool(lacks) or not declared or self._is_refused(job, pending),
        )

    def _in_words(self, lacks: Sequence[Misfit], pending: PendingReason | None) -> str:
        if not self._models.declared:
            return _NO_CLUSTER
        if lacks:
            return misfit_words(lacks)
        return self._words(pending).constraint.words if pending else ""

    def _is_refused(self, job: Job, pending: PendingReason | None) -> bool:
        if pending is None:
            return False
        return is_lasting(pending) or job.account in self._models.refused


def quoted_placement(
    quoted: QuotedJob, now_s: float, starts: Sequence[StartEstimate | None]
) -> QuotedPlacement:
    """Return what a job would have to expect, from the early, the expected and the late start:
    fewer where there was no time to work them out."""
    found = QuotedPlacement(
        shareable=quoted.tracked.job.shareable,
        reason=quoted.pending,
        misfits=[each.message() for each in quoted.misfits],
        is_refused=quoted.is_refused,
        slowdown_ratio=quoted.max_slowdown,
    )
    expected = [one.expected for one in starts if one is not None and one.expected is not None]
    if len(expected) == len(quoted.runs):
        begin_s = quoted.tracked.job.begin_s
        low, middle, high = (max(one.start_s, begin_s) - now_s for one in expected)
        bounds = min(low, middle, high), max(low, middle, high)
        found.wait_s.CopyFrom(QuotedRange(low=bounds[0], expected=middle, high=bounds[1]))
        found.cluster = expected[1].cluster
    elif quoted.choices:
        found.cluster = favourite(quoted.choices.values()).cluster
        found.reason = _NOT_EXPECTED
    elif quoted.tracked.evaluated.candidates and not quoted.is_refused:
        found.cluster = favourite(
            map(Choice.as_evaluated, quoted.tracked.evaluated.candidates)
        ).cluster
    if found.cluster:
        _put_run(found, quoted)
        found.reason = found.reason or _misses_deadline(found, quoted.tracked.job, now_s)
    return found


def _misses_deadline(found: QuotedPlacement, job: Job, now_s: float) -> str:
    """Return that the job is expected not to end by its deadline at its limit; empty where it
    is."""
    start_s = now_s + found.wait_s.expected
    if found.walltime_s <= job.time_left_s(start_s):
        return ""
    ends, deadline = in_utc(start_s + found.walltime_s), in_utc(job.deadline_s)
    return (
        f"at its limit it is expected to end {ends} at the earliest, after its deadline, {deadline}"
    )


def _put_run(found: QuotedPlacement, quoted: QuotedJob) -> None:
    """Write its run on the cluster that it would go to, and what it draws there."""
    job, on = quoted.tracked.job, quoted.clusters[found.cluster]
    candidate = quoted.tracked.evaluated.candidate(found.cluster)
    found.node_model, found.nodes = on.node_model, candidate.nodes
    millicores = unit_millicores(job, on)
    found.cores_per_unit = whole_cores(millicores)
    found.millicores_per_unit = beside_cores(millicores)
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

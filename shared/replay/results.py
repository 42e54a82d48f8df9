"""The results of a record, and those that it would have had, in the measures of simulations."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, inf

import numpy as np
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from coplace_client.errors import UnusableError
from shared.catalogue.payloads.domain_types import millicores_of
from shared.domain.energy_tariff import Tariff
from shared.domain.natural_order import natural
from shared.replay.played import Fleet, JobIds, Played, Traits
from shared.replay.runs import Allotment
from shared.replay.truth import Truth
from shared.scheduling.workload import Schedule, Workload


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How many of the starts of a record came out again, and of all its decisions how many are
    equal to the byte; None where the record has no decisions beside it."""

    starts: int
    equal_starts: int
    decisions: int | None = None
    equal_decisions: int = 0

    @property
    def is_whole(self) -> bool:
        """Return whether every start, and every decision that was compared, came out as
        recorded."""
        return self.starts == self.equal_starts and self.decisions in (None, self.equal_decisions)

    @classmethod
    def to_decisions(
        cls, recorded: Sequence[PlacementDecided], made: Sequence[PlacementDecided]
    ) -> "Fidelity":
        """Compare what was decided: equal starts are of the same job on the same nodes at the same
        P-state and time."""
        starts, decisions = Counter(_starts(recorded)), Counter(map(_bytes, recorded))
        return cls(
            starts.total(),
            (starts & Counter(_starts(made))).total(),
            decisions.total(),
            (decisions & Counter(map(_bytes, made))).total(),
        )

    @classmethod
    def to_reports(cls, truth: Truth, made: Sequence[PlacementDecided]) -> "Fidelity":
        """Compare the starts that resource managers reported and that placement had decided: on the
        same nodes at the same P-state, and not before they were decided."""
        decided = {(d.job_id, d.attempt, d.grant): d for d in made if d.verdict == VERDICT_START}
        reported = [run for run in truth.runs.values() if run.grant]
        equal = 0
        for run in reported:
            start = decided.get((run.job.job_id, run.attempt, run.grant))
            if start is not None and start.decided_at_us <= run.started_us:
                equal += Allotment.from_decision(start) == run.allotment
        return cls(len(reported), equal)


def _starts(decisions: Iterable[PlacementDecided]) -> Iterator[tuple[object, ...]]:
    for d in decisions:
        if d.verdict == VERDICT_START:
            yield d.job_id, d.attempt, d.grant, Allotment.from_decision(d), d.decided_at_us


def _bytes(decided: PlacementDecided) -> bytes:
    return decided.SerializeToString(deterministic=True)


def played_of(
    truth: Truth,
    finished: Iterable[JobFinished],
    decisions: Iterable[PlacementDecided],
    tariff_of: Mapping[str, Tariff],
) -> tuple[Played, JobIds]:
    """Return the jobs that ran to their end, in the record and in this course, with their ids. What
    is given out are cores, in the largest parts that all jobs of a cluster consist of.

    Raises UnusableError for none, and for tariffs of other clusters.
    """
    names = list(truth.models.clusters)
    if tariff_of and set(tariff_of) != set(names):
        raise UnusableError(f"tariffs are for {sorted(tariff_of)}, the record has {names}")
    known = (job for job in finished if job.job_id in truth.complete and job.cluster in names)
    jobs = [job for job in known if job.started_at_us]
    jobs.sort(key=lambda job: (job.submitted_at_us, natural(job.job_id)))
    if not jobs:
        raise UnusableError("no job ran to its end: there is nothing to compare")
    column = {name: at for at, name in enumerate(names)}
    cluster = np.array([column[job.cluster] for job in jobs])
    parts = [_part(truth, name, jobs) for name in names]
    units = np.array([millicores_of(job) // parts[column[job.cluster]] for job in jobs])
    start_s, end_s = (np.array(times) / 1e6 for times in zip(*map(_times_us, jobs), strict=True))
    power_w = np.array([_energy_j(truth, job) for job in jobs]) / (end_s - start_s)
    starts = {(d.job_id, d.attempt): d for d in decisions if d.verdict == VERDICT_START}
    decided = [starts.get((job.job_id, job.attempt)) for job in jobs]

    def everywhere(values: np.ndarray) -> np.ndarray:
        """Of where each job ran: nothing is known of elsewhere, and nobody asks."""
        return np.repeat(values[:, np.newaxis], len(names), axis=1)

    workload = Workload(
        submit_s=np.array([job.submitted_at_us / 1e6 for job in jobs]),
        order=everywhere(np.arange(len(jobs))),
        units=everywhere(units),
        limit_s=everywhere(end_s - start_s),
        run_s=everywhere(end_s - start_s),
        power_w=everywhere(power_w),
    )
    backfilled = np.array([start is not None and start.backfilled for start in decided])
    apps = sorted({job.app_id for job in jobs})
    traits = Traits(
        freq_ghz=everywhere(np.array([job.freq_ghz for job in jobs])),
        best=np.array(
            [_best(start, column, job) for start, job in zip(decided, jobs, strict=True)]
        ),
        app=np.array([apps.index(job.app_id) for job in jobs]),
        apps=tuple(apps),
    )
    schedule = Schedule(cluster, start_s, end_s, backfilled)
    fleet = _fleet(truth, parts, tariff_of)
    return Played(workload, schedule, fleet, traits), np.array([job.job_id for job in jobs])


def _times_us(job: JobFinished) -> tuple[int, int]:
    return job.started_at_us, max(job.ended_at_us, job.started_at_us + 1)


def _energy_j(truth: Truth, job: JobFinished) -> float:
    """Return the energy as it was metered, else as predicted for where the job ran."""
    run = truth.runs[job.job_id]
    on = run.allotment
    return job.energy_j or truth.energy_j(run.job, on, (job.ended_at_us - job.started_at_us) / 1e6)


def _part(truth: Truth, name: str, jobs: Sequence[JobFinished]) -> int:
    """Millicores that those of all jobs of a cluster, and of its nodes, are multiples of."""
    here = (millicores_of(job) for job in jobs if job.cluster == name)
    return gcd(truth.models.clusters[name].millicores_per_node, *here)


def _best(start: PlacementDecided | None, column: Mapping[str, int], job: JobFinished) -> int:
    """Return the cluster of the least part_eff among those that were evaluated."""
    weighed = start.candidates if start is not None else ()
    best = min(weighed, key=lambda candidate: candidate.part_eff, default=None)
    return column[best.cluster if best is not None else job.cluster]


def _fleet(truth: Truth, parts: Sequence[int], tariff_of: Mapping[str, Tariff]) -> Fleet:
    clusters = truth.models.clusters.values()
    of_a_node = [c.millicores_per_node // part for c, part in zip(clusters, parts, strict=True)]
    return Fleet(
        names=tuple(c.name for c in clusters),
        units=np.array([c.nodes * units for c, units in zip(clusters, of_a_node, strict=True)]),
        idle_w=np.array(
            [c.idle_power_w / units for c, units in zip(clusters, of_a_node, strict=True)]
        ),
        cap_w=np.full(len(clusters), inf),
        tariffs=tuple(tariff_of[c.name] for c in clusters) if tariff_of else None,
    )

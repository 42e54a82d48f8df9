"""Which limits of users, accounts, QOS and partitions a job would be beyond."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.domain.cluster import Cluster
from shared.placement.decide.pending_reason import AmountLimitReached, JobLimitReached
from shared.placement.state.allocations import Allocations
from shared.placement.state.job_partitions import offered_in
from shared.placement.state.job_record import JobRecord
from shared.placement.state.limits import (
    NOTHING,
    Limit,
    Subject,
    Usage,
    allows_job,
    beyond,
    subjects_at,
    subjects_in,
    subjects_of,
    usage_in_partitions,
    usage_of,
)
from shared.placement.state.model_store import ModelStore

LimitReached = JobLimitReached | AmountLimitReached
_Limits = Sequence[tuple[Subject, Limit]]


@dataclass(frozen=True, slots=True)
class LimitsReached:
    """Compares what jobs need with what may be held, and with what is."""

    models: ModelStore
    allocations: Allocations

    def most_jobs(self, job: JobRecord) -> Iterable[int]:
        """Yield how many more jobs like this one each limit allows, wherever they run."""
        for subject, limit in self._limits_of(job):
            if limit.jobs:
                yield limit.jobs - self.allocations.usage(subject).jobs

    def in_jobs(self, job: JobRecord) -> JobLimitReached | None:
        """Return the limit by which no job more like this one may run, wherever it would."""
        return self._in_jobs(self._limits_of(job))

    def on_cluster(self, job: JobRecord, on: Cluster, units: int) -> LimitReached | None:
        """Return the limit beyond which so many units of a job would be on a cluster: one on
        amounts, or any of its site."""
        limits, at_site = self._limits_of(job), self._limits_at(on, job)
        if not (limits or at_site):
            return None
        needed = usage_of(job.job, on, units)
        return self._in_jobs(at_site) or self._in_amounts([*limits, *at_site], needed)

    def is_too_much(self, job: JobRecord, on: Cluster, units: int) -> bool:
        """Return whether so many units of a job are more than a limit of the site of a cluster
        allows at all."""
        limits = self._limits_at(on, job)
        if not limits:
            return False
        needed = usage_of(job.job, on, units)
        return any(beyond(limit, NOTHING, needed) is not None for _, limit in limits)

    def in_partitions(self, job: JobRecord, on: Cluster, units: int) -> dict[str, LimitReached]:
        """Return the partitions of a cluster in which so many units of a job would be beyond a
        limit: of a gang, its parts that may be there, all together."""
        limited = self.models.limited_partitions
        if not limited:
            return {}
        is_gang = bool(job.job.parts)
        asked = [
            ([name for name in names if name in limited], part, part.nodes if is_gang else units)
            for names, part in offered_in(job.job, on)
        ]
        found = dict[str, LimitReached]()
        for name, needed in usage_in_partitions(asked, on).items():
            limits = self._declared(subjects_in(name, job.job.user, job.job.account, on.site))
            reached = self._in_jobs(limits) or self._in_amounts(limits, needed)
            if reached is not None:
                found[name] = reached
        return found

    def _in_jobs(self, limits: _Limits) -> JobLimitReached | None:
        for subject, limit in limits:
            used = self.allocations.usage(subject)
            if not allows_job(limit, used):
                return JobLimitReached(subject, limit.jobs, used.jobs)
        return None

    def _in_amounts(self, limits: _Limits, needed: Usage) -> AmountLimitReached | None:
        for subject, limit in limits:
            over = beyond(limit, self.allocations.usage(subject), needed)
            if over is not None:
                return AmountLimitReached(subject, over)
        return None

    def _limits_at(self, on: Cluster, job: JobRecord) -> _Limits:
        if on.site not in self.models.limited_sites:
            return ()
        return self._declared(subjects_at(on.site, job.job))

    def _limits_of(self, job: JobRecord) -> _Limits:
        return self._declared(subjects_of(job.job))

    def _declared(self, subjects: Iterable[Subject]) -> _Limits:
        found = ((subject, self.models.limits.get(subject.declared)) for subject in subjects)
        return [(subject, limit) for subject, limit in found if limit is not None]

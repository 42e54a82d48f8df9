"""Which runs a requeue ended: Slurm shows a requeued job with a new submit time, and nothing of the
run before."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_DECIDED,
    JOB_STANDING_HELD,
    JOB_STANDING_RESERVED,
    JOB_STANDING_RUNNING,
    JOB_STANDING_WAITING,
    ListedJob,
    ListJobsRequest,
)

from coplace_client.errors import RejectedError
from services.slurm.adapters.region import AskedRegion
from services.slurm.model.changes import CHANGED, HELD_BY_USER
from services.slurm.model.fields import CANNOT
from services.slurm.model.het_jobs import each_part
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.start_terms import MARK
from shared.slurm.facts import Site
from shared.slurm.grant_answer import GrantAnswer

_NOT_OVER: Final = (
    *(JOB_STANDING_WAITING, JOB_STANDING_HELD, JOB_STANDING_RESERVED, JOB_STANDING_DECIDED),
    JOB_STANDING_RUNNING,
)
_KEPT_OUT: Final = (f"held: {MARK}", f"held: {CANNOT}")
# In place of the nodes of a run, of which Slurm shows nothing any more.
_SOME_NODES: Final = "unknown"
# Slurm's number, and whether it is that of a heterogeneous job or of its first part.
_Number = tuple[int, bool]
# Id of a job, without its submit time.
_Stem = str


class RunsSeen:
    """Remembers the jobs that were not over at the last look at Slurm; asks placement at the first
    look, when there is none to remember."""

    def __init__(
        self,
        site: Site | None = None,
        listed: Callable[[], Iterable[ListedJob]] = lambda: (),
    ) -> None:
        self._site = site or Site("", "", "")
        self._listed = listed
        self._last: Mapping[_Number, SlurmJob] | None = None
        # Jobs that a process before submitted.
        self.known: frozenset[str] = frozenset()
        # Jobs that a process before held for what it did not understand or can't follow.
        self.kept_out: frozenset[str] = frozenset()
        # Jobs that a process before held for their users.
        self.held_by_user: frozenset[str] = frozenset()
        # Jobs that a process before held for what was changed of them in Slurm.
        self.held_changed: frozenset[str] = frozenset()
        # Until when placement lets jobs run that ran then.
        self.ends_by_us: Mapping[str, int] = {}

    @classmethod
    def beside(cls, region: AskedRegion, site: Site) -> "RunsSeen":
        """Return what a process that was started remembers: what placement knows. Jobs that may not
        begin yet are in the queue of no cluster."""

        def listed() -> Sequence[ListedJob]:
            return region.jobs(ListJobsRequest(standings=_NOT_OVER))

        return cls(site, listed)

    def ended(self, shown: Sequence[SlurmJob]) -> list[SlurmJob]:
        """Return the jobs whose run a requeue ended since, as it ended. Raises UnansweredError."""
        if self._last is None:
            return list(self._ended_before(shown))
        last = self._last
        known = ((last[_number(job)], job) for job in each_part(shown) if _number(job) in last)
        return [
            before.ended_by_requeue(job.submit_s)
            for before, job in known
            if 0 < before.submit_s < job.submit_s
        ]

    def remember(self, shown: Iterable[SlurmJob]) -> None:
        """Remember what is shown now."""
        self._last = {_number(job): job for job in shown if job.is_pending or job.has_nodes}

    def _ended_before(self, shown: Iterable[SlurmJob]) -> Iterator[SlurmJob]:
        """What placement takes for not over, and Slurm shows as requeued since."""
        by_stem = dict(self._stems(shown))
        known = list(self._listed()) if by_stem else []
        self.known = ids = frozenset(job.job_id for job in known)
        kept_out = (job.job_id for job in known if any(why in job.reason for why in _KEPT_OUT))
        self.kept_out = frozenset(kept_out)
        self.held_by_user = frozenset(job.job_id for job in known if HELD_BY_USER in job.reason)
        self.held_changed = frozenset(job.job_id for job in known if CHANGED in job.reason)
        self.ends_by_us = {
            job.job_id: job.allocation.ends_by_us
            for job in known
            if job.standing == JOB_STANDING_RUNNING
        }
        for listed in known:
            stem, submit_s = _stem_and_submit_s(listed.job_id)
            job = by_stem.get(stem)
            if job is not None and 0 < submit_s < job.submit_s:
                yield _run_of(listed, submit_s, job)
                # They ran, and placement may not have heard of their start yet.
                runs = (_run_of(listed, submit_s, part) for part in job.parts)
                yield from (run for run in runs if self._id(run) not in ids)

    def _stems(self, shown: Iterable[SlurmJob]) -> Iterator[tuple[_Stem, SlurmJob]]:
        for job in each_part(shown):
            try:
                yield _stem_and_submit_s(self._id(job))[0], job
            except RejectedError:
                continue

    def _id(self, job: SlurmJob) -> str:
        return job.id_at(self._site)


def _number(job: SlurmJob) -> _Number:
    return job.job_id, bool(job.parts)


def _stem_and_submit_s(job_id: str) -> tuple[_Stem, int]:
    """An id without its submit time, and that; 0: it has none."""
    before, _, last = job_id.rpartition("/")
    submit, _, task = last.partition("_")
    return f"{before}_{task}", int(submit) if submit.isdecimal() else 0


def _run_of(listed: ListedJob, submit_s: int, requeued: SlurmJob) -> SlurmJob:
    """The run that placement knows of a job, as Slurm would show it; it had what was asked for. Of
    whom it was says placement, since Slurm may have used the number again."""
    has_run = listed.standing == JOB_STANDING_RUNNING
    allocation, of = listed.allocation, requeued.fields
    word = GrantAnswer(allocation.grant, is_started=True, freq_ghz=allocation.freq_ghz)
    run = {
        "user_name": listed.user,
        "account": listed.account,
        "name": listed.app_id,
        "comment": "",
        "submit_time": submit_s,
        "start_time": allocation.since_us // 1_000_000 if has_run else 0,
        "nodes": _SOME_NODES if has_run else "",
        "node_count": allocation.nodes if has_run else of.get("node_count"),
        "tres_alloc_str": of.get("tres_req_str") if has_run else "",
        "admin_comment": str(word) if allocation.grant else "",
        "is_recalled": True,
        "ran_on": allocation.cluster if has_run else "",
    }
    return SlurmJob({**of, **run}).ended_by_requeue(requeued.submit_s)

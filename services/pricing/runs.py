"""Where and when attempts ran, as their holders say: who was beside whom, and whose word on the end
of a run counts. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobSeized, JobStarted
from google.protobuf.message import Message

from coplace_client.clock import TOLERANCE_US
from shared.domain.hostlist import expand


class CoRunTime(NamedTuple):
    """A part of the time, us."""

    began_at_us: int
    ended_at_us: int


class KeptRun(NamedTuple):
    """Where an attempt ran and when: `nodes` is a host list, empty where nobody named them, and
    `ended_at_us` 0 while it runs. `grant` is 0 where nobody granted it."""

    grant: int
    cluster: str
    nodes: str
    started_at_us: int
    ended_at_us: int = 0

    def counts_before(self, known: "KeptRun | None") -> bool:
        """Return whether it counts instead of what is known: of two runs of an attempt that with
        the higher grant does, and one that began instead of one that never did."""
        if known is None:
            return True
        is_first = not known.started_at_us and self.started_at_us
        return self.grant > known.grant or (self.grant == known.grant and bool(is_first))

    def holds(self, requeue: "KeptRequeue") -> bool:
        """Return whether who said that it was requeued holds it, or is an operator; of another
        grant's run nothing is said."""
        is_of = requeue.is_seized or requeue.cluster == self.cluster
        return is_of and requeue.grant in (0, self.grant)

    def ended_by(self, ended_at_us: int) -> "KeptRun":
        """Return it as it ended at that time at the latest; 0 says nothing of when."""
        if self.ended_at_us or not ended_at_us:
            return self
        return self._replace(ended_at_us=max(ended_at_us, self.started_at_us))

    def time_beside(self, other: "KeptRun", measured: CoRunTime) -> CoRunTime | None:
        """Return for which part of a measured time both were on a node, or on a cluster where a
        resource manager names no nodes; None where they weren't as far as clocks agree."""
        runs = self, other
        is_believed = (
            self.cluster == other.cluster
            and self.overlaps(other)
            and all(run.lasted(*measured) for run in runs)
            and _may_share(self.nodes, other.nodes)
        )
        began_us = max(measured.began_at_us, *(run.started_at_us for run in runs))
        ends_us = [run.ended_at_us for run in runs if run.ended_at_us]
        ended_us = min([measured.ended_at_us, *ends_us])
        return CoRunTime(began_us, ended_us) if is_believed and began_us <= ended_us else None

    def overlaps(self, other: "KeptRun") -> bool:
        """Return whether both ran at a time."""
        began_us = max(self.started_at_us, other.started_at_us)
        return all(not run.ended_at_us or began_us < run.ended_at_us for run in (self, other))

    def lasted(self, began_at_us: int, ended_at_us: int) -> bool:
        """Return whether it ran from one time to the other, as far as clocks agree."""
        until_us = self.ended_at_us or ended_at_us
        is_begun = 0 < self.started_at_us <= began_at_us + TOLERANCE_US
        return is_begun and ended_at_us <= until_us + TOLERANCE_US

    def has_nodes(self, failed: str) -> bool:
        """Return whether one of these nodes is of the run; where it names none, any may be."""
        return bool(failed) and _may_share(self.nodes, failed)


class KeptRequeue(NamedTuple):
    """That somebody requeued an attempt: for whose cluster and grant, which nodes failed, and
    when; or that an operator seized it."""

    cluster: str
    grant: int
    failed_nodes: str
    requeued_at_us: int = 0
    is_seized: bool = False


def time_together(
    run: KeptRun | None, others: Iterable[KeptRun | None], measured: CoRunTime
) -> CoRunTime | None:
    """Return the longest part of a measured time for which a run was beside one of the others."""
    if run is None:
        return None
    found = (run.time_beside(other, measured) for other in others if other is not None)
    return max(
        filter(None, found), key=lambda time: time.ended_at_us - time.began_at_us, default=None
    )


def run_of_start(started: JobStarted) -> KeptRun:
    """Return the run that a start begins."""
    nodes = ",".join(started.nodes)
    return KeptRun(started.grant, started.cluster, nodes, started.started_at_us)


def run_of_finish(finished: JobFinished, known: KeptRun | None) -> KeptRun:
    """Return the run that a finish ends; its nodes are those of its start, where that is known."""
    nodes = known.nodes if known and known.cluster == finished.cluster else ""
    grant = finished.grant or (known.grant if known and known.cluster == finished.cluster else 0)
    times_us = finished.started_at_us, finished.ended_at_us
    return KeptRun(grant, finished.cluster, nodes, *times_us)


def runs_known(facts: Iterable[Message]) -> dict[str, list[KeptRun]]:
    """Return the runs of each job, as far as events of jobs say where they were."""
    runs: dict[tuple[str, int], KeptRun] = {}
    ends: list[JobRequeued | JobSeized] = []
    for fact in facts:
        match fact:
            case JobStarted():
                runs.setdefault((fact.job_id, fact.attempt), run_of_start(fact))
            case JobFinished():
                key = fact.job_id, fact.attempt
                runs[key] = run_of_finish(fact, runs.get(key))
            case JobRequeued() | JobSeized():
                ends.append(fact)
    for end in ends:
        key = end.job_id, attempt_ended(end)
        run, requeue = runs.get(key), requeue_of(end)
        if run and run.holds(requeue):
            runs[key] = run.ended_by(requeue.requeued_at_us)
    found = defaultdict[str, list[KeptRun]](list)
    for (job_id, _), run in runs.items():
        found[job_id].append(run)
    return found


def attempt_ended(end: JobRequeued | JobSeized) -> int:
    """Return the attempt that is over; a requeue names the one that it begins."""
    return end.attempt if isinstance(end, JobSeized) else end.attempt - 1


def requeue_of(end: JobRequeued | JobSeized) -> KeptRequeue:
    """Return who says that an attempt was requeued, and when."""
    if isinstance(end, JobSeized):
        return KeptRequeue("", end.grant, "", end.seized_at_us, is_seized=True)
    failed = ",".join(end.failed_nodes)
    return KeptRequeue(end.cluster, end.grant, failed, end.requeued_at_us)


def _may_share(nodes: str, others: str) -> bool:
    """Return whether two host lists have a node in common, or one of them names none."""
    return not (nodes and others) or not _names(nodes).isdisjoint(_names(others))


@lru_cache(maxsize=4096)
def _names(hostlist: str) -> frozenset[str]:
    return frozenset(expand(hostlist))

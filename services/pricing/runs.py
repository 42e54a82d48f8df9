"""Where and when attempts ran, as their holders say: who was beside whom, and whose word on the end
of a run counts. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobSeized, JobStarted, JobSubmitted
from google.protobuf.message import Message

from coplace_client.clock import TOLERANCE_US
from coplace_client.millicores import millicores
from shared.domain.hostlist import expand


class CoRunTime(NamedTuple):
    """A part of the time, us."""

    began_at_us: int
    ended_at_us: int


class KeptRun(NamedTuple):
    """Where an attempt ran and when: `nodes` is a host list, empty where nobody named them, and
    `ended_at_us` 0 while it runs. `grant` is 0 where nobody granted it. Of one that `is_seized`
    nobody says when it ended, but that it had by then. One that `is_alone` leaves no room on its
    nodes."""

    grant: int
    cluster: str
    nodes: str
    started_at_us: int
    ended_at_us: int = 0
    is_seized: bool = False
    is_alone: bool = False

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

    @property
    def is_end_said(self) -> bool:
        """Return whether its holder said when it ended."""
        return bool(self.ended_at_us) and not self.is_seized

    def ended_by(self, requeue: "KeptRequeue") -> "KeptRun":
        """Return it as it ended at that time at the latest; 0 says nothing of when. The holder's
        word counts before an operator's."""
        is_better = not self.ended_at_us or (self.is_seized and not requeue.is_seized)
        if not (is_better and requeue.requeued_at_us):
            return self
        ended_at_us = max(requeue.requeued_at_us, self.started_at_us)
        return self._replace(ended_at_us=ended_at_us, is_seized=requeue.is_seized)

    def time_beside(self, other: "KeptRun", measured: CoRunTime) -> CoRunTime | None:
        """Return for which part of a measured time both were on a node, or on a cluster where a
        resource manager names no nodes; None where they weren't as far as clocks agree."""
        runs = self, other
        is_believed = (
            self.cluster == other.cluster
            and self.overlaps(other)
            and self._outlasts_the_start_of(other)
            and other._outlasts_the_start_of(self)
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

    def _outlasts_the_start_of(self, other: "KeptRun") -> bool:
        """Return whether it was still there when the other began, as far as their holders know: of
        one that was seized nobody does, and where one leaves no room the other has ended. Which of
        two began first that have the same time nobody knows either."""
        if self.is_end_said or other.started_at_us < self.started_at_us:
            return True
        return not (self.is_seized or self.is_alone or other.is_alone)

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


def has_nodes_alone(submitted: JobSubmitted | None, grant: int, node_cores: int) -> bool:
    """Return whether a job has its nodes to itself, as far as is known: whole ones that it asked
    for, or any part that was granted to one which is not shareable. Resource managers divide nodes
    between what they start by themselves. What nobody submitted so far may need all of its nodes.
    `node_cores` is 0 where nobody declared them."""
    if submitted is None:
        return True
    if submitted.cores_per_unit and (submitted.shareable or not grant):
        of_unit = millicores(submitted.cores_per_unit, submitted.millicores_per_unit)
        return 0 < millicores(node_cores) <= of_unit
    return not submitted.shareable


def runs_known(facts: Iterable[Message]) -> dict[str, list[KeptRun]]:
    """Return the runs of each job, as far as events of jobs say where they were."""
    runs: dict[tuple[str, int], KeptRun] = {}
    ends: list[JobRequeued | JobSeized] = []
    told = list(facts)
    submissions = {fact.job_id: fact for fact in reversed(told) if isinstance(fact, JobSubmitted)}
    for fact in told:
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
            runs[key] = run.ended_by(requeue)
    found = defaultdict[str, list[KeptRun]](list)
    for (job_id, _), run in runs.items():
        is_alone = has_nodes_alone(submissions.get(job_id), run.grant, node_cores=0)
        found[job_id].append(run._replace(is_alone=is_alone))
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

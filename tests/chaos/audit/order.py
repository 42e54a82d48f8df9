"""Who goes first where managers own the order, and nodes that are idle beside jobs that wait for
nodes: from what was published and decided alone."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from coplace.v1.accounts_pb2 import AllocationDeclared
from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_ACCOUNT,
    LIMIT_SUBJECT_QOS,
    LIMIT_SUBJECT_USER,
    ClusterDeclared,
    LimitsDeclared,
    PowerCapDeclared,
    RoundEnded,
)
from coplace.v1.jobs_pb2 import (
    JobDeclined,
    JobFinished,
    JobRequeued,
    JobsReordered,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_BEGIN,
    CONSTRAINT_KIND_CAPACITY,
    CONSTRAINT_KIND_DEPENDENCY,
    CONSTRAINT_KIND_HOLD,
    CONSTRAINT_KIND_NOT_TRIED,
    CONSTRAINT_KIND_RESERVATION,
    VERDICT_ACTION,
    VERDICT_QUEUED,
    VERDICT_START,
    PlacementDecided,
)

from shared.catalogue.event import Event
from shared.domain.hostlist import expand
from shared.domain.queue_discipline import QueueDiscipline
from shared.domain.queue_order import QueueOrder
from shared.domain.runtimes import Runtimes
from tests.chaos.audit.declared import Declared
from tests.chaos.audit.evidence import Evidence, is_hostile
from tests.chaos.audit.holders import Holders
from tests.chaos.audit.nodes import Words, names_of, own_drains
from tests.chaos.audit.reservations import Reserved
from tests.chaos.audit.rules import Rules
from tests.chaos.audit.wills import Managers
from tests.chaos.managers import node_names_of
from tests.chaos.places import allowed

_DIGITS: Final = re.compile(r"([0-9]+)")
# What keeps a job back that only wants nodes.
_OF_NODES: Final = {
    CONSTRAINT_KIND_CAPACITY,
    CONSTRAINT_KIND_RESERVATION,
    CONSTRAINT_KIND_NOT_TRIED,
}
# What keeps it out of the queue until somebody acts, or another job ends.
_KEEPING_OUT: Final = {CONSTRAINT_KIND_DEPENDENCY, CONSTRAINT_KIND_HOLD}
# What makes one of two jobs of equal size wait that the other need not wait for.
_MORE: Final = (
    *("architectures", "partitions", "features", "nodes_wanted", "nodes_excluded", "clusters"),
    *("begin_at_us", "deadline_at_us", "depends_on", "reservation", "memory_gib", "parts"),
    *("array", "licences", "is_interactive", "home_cluster", "qos", "shareable"),
    *("cores_per_unit", "memory_gib_per_unit", "resources_per_unit", "held_because"),
)

# One that nobody submitted.
_HELD: Final = JobSubmitted(held_because="it is not known")
# For what a job may wait that has the nodes where it may be.
_BESIDE_NODES: Final = (
    *("begin_at_us", "deadline_at_us", "depends_on", "reservation", "parts", "array"),
    *("licences", "memory_gib_per_unit", "resources_per_unit", "held_because"),
)


def is_plain(job: JobSubmitted) -> bool:
    """Whether a job asks for nothing but whole nodes."""
    return not any(getattr(job, name) for name in _MORE) and not is_hostile(job.job_id)


def wants_nodes_alone(job: JobSubmitted) -> bool:
    """Whether a job waits for nothing but nodes, each of which takes a unit of it while it is
    idle."""
    return not any(getattr(job, name) for name in _BESIDE_NODES) and not is_hostile(job.job_id)


@dataclass(slots=True)
class _Queue:
    """The jobs that wait by the last word on each, and by what order their managers want them.
    Jobs of which anything was said since that word are `touched`."""

    submitted: dict[str, JobSubmitted] = field(default_factory=dict)
    priorities: dict[str, tuple[int, int]] = field(default_factory=dict)
    waiting: dict[str, PlacementDecided] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    limits: set[tuple[int, str]] = field(default_factory=set)
    caps: bool = False
    accounts: bool = False

    def learn(self, event: Event) -> None:
        """One more event."""
        told = event.payload
        self.touched.add(getattr(told, "job_id", ""))
        match told:
            case JobSubmitted() if told.job_id not in self.submitted:
                self.submitted[told.job_id] = told
                self.priorities[told.job_id] = 0, told.manager_priority
            case JobsReordered():
                self._reorder(told)
            case JobDeclined():
                self.refused.add(told.job_id)
            case LimitsDeclared():
                self.limits.add((told.subject, told.name))
            case PowerCapDeclared():
                self.caps = True
            case AllocationDeclared():
                self.accounts = True
            case _:
                pass

    def _reorder(self, told: JobsReordered) -> None:
        """What a manager says of its own jobs, where nothing newer is known."""
        for job_id, priority in zip(told.job_ids, told.manager_priorities, strict=True):
            job = self.submitted.get(job_id)
            home = (job.home_cluster or job.reference_cluster) if job is not None else ""
            is_newer = told.reordered_at_us > self.priorities.get(job_id, (0, 0))[0]
            if home in told.clusters and is_newer:
                self.priorities[job_id] = told.reordered_at_us, priority

    def end_round(self, decisions: list[PlacementDecided]) -> None:
        """What was decided is the last word."""
        for decided in decisions:
            if decided.verdict == VERDICT_QUEUED:
                self.waiting[decided.job_id] = decided
            elif decided.verdict != VERDICT_ACTION:
                self.waiting.pop(decided.job_id, None)
        self.touched.clear()

    def has_limit(self, job: JobSubmitted) -> bool:
        """Whether there ever was a limit for the user, the account or the QOS of a job."""
        of = {
            (LIMIT_SUBJECT_USER, job.user),
            (LIMIT_SUBJECT_ACCOUNT, job.account),
            (LIMIT_SUBJECT_QOS, job.qos),
        }
        return bool(of & self.limits)

    def key(self, job: JobSubmitted) -> tuple[object, ...]:
        """Ascending as managers want it; only of jobs with a priority."""
        return -self.priorities[job.job_id][1], _natural(job.sequence), _natural(job.job_id)


def no_job_passes_one_that_needs_no_more(evidence: Evidence) -> Iterator[str]:
    """Where managers own the order no start takes nodes that a job before it could have had, which
    asks for no more of anything and for no longer."""
    queue, rules, declared = _Queue(), Rules(), Declared()
    for ended in evidence.ends_of_rounds(queue.learn, rules.learn, declared.learn):
        decisions = evidence.by_round.get(ended.round, [])
        queue.touched |= {each.job_id for each in decisions if each.verdict == VERDICT_START}
        if rules["order"] is QueueOrder.MANAGER:
            for start in decisions:
                if start.verdict == VERDICT_START and start.cluster in declared.clusters:
                    cluster = declared.clusters[start.cluster]
                    yield from _passed(evidence, queue, start, cluster)
        queue.end_round(decisions)


def _passed(
    evidence: Evidence, queue: _Queue, start: PlacementDecided, cluster: ClusterDeclared
) -> Iterator[str]:
    taker = evidence.world.journal.submission(start.job_id)
    if taker is None or taker.reservation or start.predicted_runtime_s or start.attempt > 1:
        return
    whole = start.cores_per_node == cluster.cores_per_node and not start.co_runner_job_id
    for job_id, word in queue.waiting.items():
        job = queue.submitted.get(job_id)
        if job is None or not whole or job_id in queue.touched | queue.refused:
            continue
        if _is_before(queue, job, taker) and _needs_no_more(queue, job, word, taker, start):
            here = allowed(job, cluster, job.nodes, up=True)
            if any({*start.node_indices} <= there for there in here):
                of = f"{start.job_id} in round {start.round} on {start.cluster}"
                yield f"{of} passes {job_id}, which waits since {word.round}: {word.reason}"


def _is_before(queue: _Queue, job: JobSubmitted, taker: JobSubmitted) -> bool:
    _, priority = queue.priorities[job.job_id]
    _, others = queue.priorities.get(taker.job_id, (0, 0))
    return bool(priority) and (not others or queue.key(job) < queue.key(taker))


def _needs_no_more(
    queue: _Queue,
    job: JobSubmitted,
    word: PlacementDecided,
    taker: JobSubmitted,
    start: PlacementDecided,
) -> bool:
    """Of nodes, time, watts, limits and accounts."""
    here = [one for one in word.candidates if one.cluster == start.cluster]
    kinds = {each.kind for each in [*word.constraints, *(c for o in here for c in o.constraints)]}
    is_same_user = not queue.limits or (job.user, job.account) == (taker.user, taker.account)
    is_same_app = not queue.caps or job.app_id == taker.app_id
    return (
        is_plain(job)
        and bool(here)
        and kinds <= _OF_NODES
        and job.account == taker.account
        and is_same_user
        and is_same_app
        and max(job.nodes, here[0].nodes) <= len(start.node_indices)
        and 2 * here[0].walltime_s <= start.walltime_s
    )


@dataclass(slots=True)
class _Idle:
    """Which nodes nobody has, as far as it was published."""

    declared: Declared
    holders: Holders
    strangers: dict[tuple[str, int], JobStarted] = field(default_factory=dict)
    drained: Words = field(default_factory=Words)
    reserved: Reserved = field(init=False)

    def __post_init__(self) -> None:
        self.reserved = Reserved(self.declared)

    def learn(self, event: Event) -> None:
        """One more event."""
        match event.payload:
            case JobStarted() as told:
                start = self.holders.starts.get(told.job_id)
                if start is None or (start.attempt, start.grant) != (told.attempt, told.grant):
                    self.strangers[told.job_id, told.attempt] = told
            case JobFinished() | JobRequeued() as told:
                for key in [k for k in self.strangers if k[0] == told.job_id]:
                    del self.strangers[key]
            case _:
                pass
        self.drained.learn(event)
        self.reserved.learn(event)

    def soonest_end_us(self, cluster: str) -> int:
        """When the first of what runs on a cluster ends by its limit, or anywhere; nobody knows of
        what runs as nobody decided."""
        strangers = [run for run in self.strangers.values() if cluster in ("", run.cluster)]
        starts = [each for each in self.holders.starts.values() if cluster in ("", each.cluster)]
        ends_us = [each.decided_at_us + int(each.walltime_s * 1e6) for each in starts]
        return 0 if strangers else min(ends_us, default=sys.maxsize)

    def turns_us(self, cluster: str, now_us: int) -> list[int]:
        """When nodes of a cluster begin to be kept for others, and when they no longer are."""
        kept = self.reserved.of(cluster).values()
        return [at_us for each in kept for at_us in (each.from_us, each.until_us) if at_us > now_us]

    def of(self, cluster: str, now_us: int) -> set[str]:
        """The idle nodes of a cluster, but those that are kept for others now or later."""
        declared = self.declared.clusters.get(cluster)
        if declared is None or cluster in self.declared.lost:
            return set()
        names = names_of(declared)
        self.drained.forget(cluster, names)
        found = {name for name in names if not self.drained.drains(cluster, name, now_us)}
        for each in self.reserved.of(cluster).values():
            if each.until_us > now_us:
                found -= {*expand(",".join(each.nodes))} if each.nodes else {*names}
        taken = {node for run in self.strangers.values() for node in run.nodes}
        for start in self.holders.starts.values():
            if start.cluster == cluster:
                taken |= {*node_names_of(start, cluster)}
        return found - taken


def no_node_is_idle_that_a_job_waits_for(evidence: Evidence) -> Iterator[str]:
    """Where all that wait for a cluster want nodes alone, and each has enough of them, they start:
    at the latest in the round after. So does each that has enough of them and
    ends before anything that runs is to, whoever else waits: under EASY nothing can be reserved
    before that."""
    declared, holders, queue, rules = Declared(), Holders(), _Queue(), Rules()
    managers = Managers()
    idle = _Idle(declared, holders)
    before: frozenset[tuple[str, str]] = frozenset()
    folds = declared.learn, idle.learn, holders.learn, queue.learn, rules.learn, managers.learn
    own = own_drains(evidence)
    for ended in evidence.ends_of_rounds(*folds):
        holders.decide(evidence, ended.round)
        idle.drained.set_back(ended.ended_at_us)
        for said in own.get(ended.ended_at_us, []):
            idle.drained.learn(said)
        touched = frozenset(queue.touched)
        queue.end_round(evidence.by_round.get(ended.round, []))
        managers.end_round(ended.ended_at_us / 1e6)
        found = {*_beside_idle_nodes(queue, idle, managers, ended)}
        if (rules["discipline"], rules["runtimes"]) == (QueueDiscipline.EASY, Runtimes.REQUESTED):
            found |= {*_ahead_of_all(queue, idle, managers, ended)}
        for job_id, cluster in sorted(found & before):
            if job_id not in touched:
                of = f"{job_id} waits in round {ended.round} beside idle nodes of {cluster}"
                yield f"{of}: {queue.waiting[job_id].reason}"
        before = frozenset(found)


def _ahead_of_all(
    queue: _Queue, idle: _Idle, managers: Managers, ended: RoundEnded
) -> Iterator[tuple[str, str]]:
    """The jobs that wait for a cluster, and would end there before anything that runs is to: where
    some wait for licences, anything that runs anywhere."""
    now_us = ended.ended_at_us
    silent = managers.silent(now_us / 1e6)
    if queue.caps or queue.accounts:
        return
    waiting = [(queue.submitted.get(each.job_id), each) for each in queue.waiting.values()]
    is_licensed = any(job is None or job.licences for job, _ in waiting)
    for job, word in waiting:
        if job is None or not wants_nodes_alone(job) or queue.has_limit(job):
            continue
        for one in word.candidates:
            is_out = bool({one.cluster, job.home_cluster} & silent) or is_hostile(one.cluster)
            of_others = {each.kind for each in one.constraints} - _OF_NODES
            soonest_us = idle.soonest_end_us("" if is_licensed else one.cluster)
            turn_us = min(idle.turns_us(one.cluster, now_us), default=soonest_us)
            ends_us = now_us + int(one.walltime_s * 1e6)
            if is_out or of_others or ends_us >= min(soonest_us, turn_us):
                continue
            nodes = idle.of(one.cluster, now_us)
            if nodes and _has_enough(queue, idle, one.cluster, nodes, word):
                yield word.job_id, one.cluster


def _beside_idle_nodes(
    queue: _Queue, idle: _Idle, managers: Managers, ended: RoundEnded
) -> Iterator[tuple[str, str]]:
    """The jobs that wait for a cluster, where each that nothing else keeps back has enough idle
    nodes there."""
    if queue.caps or queue.accounts:
        return
    silent = managers.silent(ended.ended_at_us / 1e6)
    waiting: dict[str, list[PlacementDecided]] = {}
    for word in queue.waiting.values():
        for one in word.candidates if not _is_kept_out(word, ended) else ():
            waiting.setdefault(one.cluster, []).append(word)
    for cluster, words in waiting.items():
        nodes = idle.of(cluster, ended.ended_at_us) if cluster not in silent else set[str]()
        jobs = [queue.submitted.get(word.job_id, _HELD) for word in words]
        may_all_start = all(
            wants_nodes_alone(job) and job.home_cluster not in silent and not queue.has_limit(job)
            for job in jobs
        )
        if (
            nodes
            and may_all_start
            and all(_has_enough(queue, idle, cluster, nodes, each) for each in words)
        ):
            yield from ((word.job_id, cluster) for word in words)


def _is_kept_out(word: PlacementDecided, ended: RoundEnded) -> bool:
    """Whether a job is in no queue, by the last word on it."""
    return any(
        each.kind in _KEEPING_OUT
        or (each.kind == CONSTRAINT_KIND_BEGIN and each.until_us > ended.ended_at_us)
        for each in word.constraints
    )


def _has_enough(
    queue: _Queue, idle: _Idle, cluster: str, nodes: set[str], word: PlacementDecided
) -> bool:
    job, declared = queue.submitted[word.job_id], idle.declared.clusters[cluster]
    if word.job_id in queue.refused or word.candidates_left_out:
        return False
    names = names_of(declared)
    needed = max(job.nodes, *(one.nodes for one in word.candidates if one.cluster == cluster))
    here = allowed(job, declared, needed, up=True)
    has_room = any(len({names[index] for index in there} & nodes) >= needed for there in here)
    is_of_nodes = {each.kind for each in word.constraints} <= _OF_NODES
    return is_of_nodes and has_room and {*job.nodes_wanted} <= nodes


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """By which names sort, numbers in them as numbers."""
    parts = [part for part in _DIGITS.split(name) if part]
    return tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts)

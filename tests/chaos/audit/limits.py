"""Nobody has more at once than is declared: worked out from what was published of limits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_ACCOUNT,
    LIMIT_SUBJECT_QOS,
    LIMIT_SUBJECT_USER,
    ClusterDeclared,
    LimitsDeclared,
    LimitSubject,
)
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import PlacementDecided

from shared.catalogue.event import Event
from tests.chaos.audit.evidence import Evidence, is_hostile
from tests.chaos.audit.holders import Holders

# A user, an account or a QOS by name, and whether each of these has it for itself.
Subject = tuple[LimitSubject.ValueType, str, LimitSubject.ValueType]


@dataclass(slots=True)
class _Limits:
    """The newest word on each, and how many cores the nodes of a cluster have."""

    said: dict[Subject, tuple[tuple[int, str], LimitsDeclared]] = field(default_factory=dict)
    cores: dict[str, int] = field(default_factory=dict)

    def learn(self, event: Event) -> None:
        """One more word."""
        match event.payload:
            case ClusterDeclared() as cluster:
                self.cores[cluster.cluster] = cluster.cores_per_node
            case LimitsDeclared() as told:
                key, stamp = (told.subject, told.name, told.each), (event.time_us, event.id)
                if key not in self.said or stamp > self.said[key][0]:
                    self.said[key] = stamp, told


def nobody_has_more_than_he_may(evidence: Evidence) -> Iterator[str]:
    """Whoever a start is of has no more then than each limit on him says."""
    limits, holders = _Limits(), Holders()
    for ended in evidence.ends_of_rounds(limits.learn, holders.learn):
        starts = holders.decide(evidence, ended.round)
        for start in starts:
            job = evidence.world.journal.submission(start.job_id)
            if job is None or is_hostile(start.job_id):
                continue
            for _, limit in limits.said.values():
                if _binds(limit, job):
                    yield from _exceeded(evidence, limits, holders, start, job, limit)


def _exceeded(
    evidence: Evidence,
    limits: _Limits,
    holders: Holders,
    start: PlacementDecided,
    job: JobSubmitted,
    limit: LimitsDeclared,
) -> Iterator[str]:
    submission, held = evidence.world.journal.submission, dict[str, int | Fraction]()
    for each in holders.sure():
        other = submission(each.job_id)
        is_alike = other is not None and _who(limit.each, other) == _who(limit.each, job)
        if other is not None and is_alike and _binds(limit, other) and not is_hostile(each.job_id):
            for unit, amount in _amounts(other, each, limits.cores[each.cluster]).items():
                held[unit] = held.get(unit, 0) + amount
    needs = _amounts(job, start, limits.cores[start.cluster])
    for unit, most in _most(limit).items():
        of_unit = held.get(unit, 0)
        if most and needs.get(unit) and of_unit > most:
            whose = f"{LimitSubject.Name(limit.subject)} {limit.name}/{_who(limit.each, job)}"
            yield f"{start.job_id} in round {start.round}: {of_unit} of {most} {unit} of {whose}"


def _most(limit: LimitsDeclared) -> Mapping[str, int]:
    return {
        "jobs": limit.most_running_jobs,
        "nodes": limit.most_nodes,
        "cores": limit.most_cores,
        "node-seconds": ceil(limit.most_node_hours * 3600),
        **limit.most_resources,
    }


def _amounts(
    job: JobSubmitted, start: PlacementDecided, node_cores: int
) -> dict[str, int | Fraction]:
    """What a start takes; resources as the job asks for them."""
    units = sum(start.node_units) or len(start.node_indices)
    cores = units * (Fraction(start.millicores_per_unit, 1000) or start.cores_per_node)
    nodes = -(-cores // node_cores)
    found = {
        "jobs": 1,
        "nodes": nodes,
        "cores": cores,
        "node-seconds": nodes * ceil(job.walltime_s),
    }
    asked = [(part.resources_per_unit, part.units) for part in job.parts]
    for resources, count in asked or [(job.resources_per_unit, units)]:
        for name, number in resources.items():
            found[name] = found.get(name, 0) + number * count
    return found


def _binds(limit: LimitsDeclared, job: JobSubmitted) -> bool:
    return _who(limit.subject, job) == limit.name


def _who(subject: LimitSubject.ValueType, job: JobSubmitted) -> str:
    names = {
        LIMIT_SUBJECT_USER: job.user,
        LIMIT_SUBJECT_ACCOUNT: job.account,
        LIMIT_SUBJECT_QOS: job.qos,
    }
    return names.get(subject, "")

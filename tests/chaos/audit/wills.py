"""What somebody wants of a job, or a manager refuses it, holds: no start goes against it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from coplace.v1.control_pb2 import (
    ClusterDeclared,
    ClusterReturned,
    ClusterUndeclared,
    ManagerAlive,
    NodesDrained,
    NodesResumed,
    ReservationDeclared,
    ReservationRemoved,
)
from coplace.v1.jobs_pb2 import (
    JobCancelled,
    JobDeclined,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobSeized,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from shared.catalogue.event import Event
from shared.domain.hostlist import expand
from shared.placement.state.announcements import SOURCE
from shared.scheduling.windows import late_start_s
from tests.chaos.audit.evidence import Evidence, events_of, is_hostile
from tests.chaos.audit.holders import Holders
from tests.chaos.managers import node_names_of

Stamp = tuple[int, str]


@dataclass(slots=True)
class _Wills:
    """Who was cancelled, and the newest word on whether a job is held."""

    cancelled: set[str] = field(default_factory=set)
    held: dict[str, tuple[Stamp, bool]] = field(default_factory=dict)

    def learn(self, event: Event) -> None:
        """One more word."""
        match event.payload:
            case JobCancelled() as told:
                self.cancelled.add(told.job_id)
            case JobHeld() | JobReleased() as told:
                word = (event.time_us, event.id), isinstance(told, JobHeld)
                self.held[told.job_id] = max(word, self.held.get(told.job_id, word))

    def is_held(self, start: PlacementDecided) -> bool:
        """Whether the newest word on a job, or on its array, is that it is held."""
        of = [self.held[one] for one in (start.job_id, start.array_job_id) if one in self.held]
        return max(of)[1] if of else False


def no_job_starts_that_somebody_cancelled_or_holds(evidence: Evidence) -> Iterator[str]:
    """By what placement had taken in when it decided; words on an array are on its tasks."""
    wills = _Wills()
    for ended in evidence.ends_of_rounds(wills.learn):
        for start in _starts(evidence, ended.round):
            of = f"{start.job_id} in round {start.round}"
            if {start.job_id, start.array_job_id} & wills.cancelled:
                yield f"{of} was cancelled"
            if wills.is_held(start):
                yield f"{of} is held"


@dataclass(slots=True)
class _Refused:
    """The nodes that a job can't have, by cluster, until anything there or of the job changes. A
    reservation begins and ends at its `turns_us`."""

    holders: Holders
    turns_us: dict[str, set[int]] = field(default_factory=dict)
    nodes: dict[str, dict[str, set[str]]] = field(default_factory=dict)

    def learn(self, event: Event) -> None:
        """One more word. It has to come before the holders let go of what is declined."""
        match event.payload:
            case JobDeclined() as told if told.refused_nodes:
                start = self.holders.starts.get(told.job_id)
                if start is not None and (start.attempt, start.grant) == (told.attempt, told.grant):
                    granted = {*node_names_of(start, start.cluster)}
                    named = granted & {*expand(",".join(told.refused_nodes))}
                    of = self.nodes.setdefault(told.job_id, {})
                    of.setdefault(start.cluster, set()).update(named)
            case JobSubmitted() | JobReleased() | JobRequeued() | JobSeized() as told:
                for job_id in [one for one in self.nodes if _is_of(one, told.job_id)]:
                    del self.nodes[job_id]
            case (
                ClusterDeclared()
                | ClusterReturned()
                | ClusterUndeclared()
                | NodesDrained()
                | NodesResumed()
                | ReservationDeclared()
                | ReservationRemoved() as told
            ):
                self.change(told.cluster)
                if isinstance(told, ReservationDeclared):
                    # Soon after its begin too, since the clocks of resource managers differ.
                    late_us = round(late_start_s(told.from_us / 1e6, told.until_us / 1e6) * 1e6)
                    turns_us = self.turns_us.setdefault(told.cluster, set())
                    turns_us.update((told.from_us, (told.from_us + late_us) // 2, told.until_us))

    def turn(self, ended_us: int) -> None:
        """Reservations begin and end by the end of a round."""
        for cluster, turns_us in self.turns_us.items():
            if past := {at_us for at_us in turns_us if at_us <= ended_us}:
                turns_us.difference_update(past)
                self.change(cluster)

    def change(self, cluster: str) -> None:
        """Something of a cluster changed: what was refused there may be granted again."""
        for of in self.nodes.values():
            of.pop(cluster, None)


def no_job_gets_again_what_it_was_refused(evidence: Evidence) -> Iterator[str]:
    """Nodes that a decline named stay refused to the job."""
    own: dict[int, list[str]] = {}
    for event in events_of(evidence.world.log, evidence.world.codec, "placement.decisions"):
        if isinstance(event.payload, NodesDrained) and event.source == SOURCE:
            own.setdefault(event.time_us, []).append(event.payload.cluster)
    holders = Holders()
    refused = _Refused(holders)
    for ended in evidence.ends_of_rounds(refused.learn, holders.learn):
        refused.turn(ended.ended_at_us)
        for cluster in own.get(ended.ended_at_us, []):
            refused.change(cluster)
        for start in holders.decide(evidence, ended.round):
            nodes = refused.nodes.get(start.job_id, {}).get(start.cluster, set())
            again = sorted(nodes & {*node_names_of(start, start.cluster)})
            if again and not is_hostile(start.job_id):
                yield f"{start.job_id} in round {start.round} gets {again} again"


@dataclass(slots=True)
class Managers:
    """Until when the managers of each cluster promised to speak again: by the ends of rounds."""

    newest_us: dict[tuple[str, str], int] = field(default_factory=dict)
    promises: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    unheard: list[ManagerAlive] = field(default_factory=list)
    declared: dict[str, tuple[int, str]] = field(default_factory=dict)

    def learn(self, event: Event) -> None:
        """One more word; a copy of an older one says nothing, nor does that of an undeclaration
        after which the cluster was declared anew."""
        stamp = event.time_us, event.id
        match event.payload:
            case ManagerAlive() as told:
                self.unheard.append(told)
            case ClusterDeclared() as told:
                self.declared[told.cluster] = max(stamp, self.declared.get(told.cluster, stamp))
            case ClusterUndeclared() as told if stamp > self.declared.get(told.cluster, (0, "")):
                self.promises.pop(told.cluster, None)
                self.unheard = [each for each in self.unheard if told.cluster not in each.clusters]

    def end_round(self, now_s: float) -> None:
        """What was heard in it counts from its end."""
        for told in self.unheard:
            for cluster in told.clusters:
                key = cluster, told.manager
                if told.alive_at_us > self.newest_us.get(key, 0):
                    self.newest_us[key] = told.alive_at_us
                    until_s = now_s + told.silent_after_s
                    self.promises.setdefault(cluster, {})[told.manager] = until_s, now_s
        self.unheard = []

    def silent(self, now_s: float) -> set[str]:
        """The clusters all of whose managers promised to have spoken by now."""
        return {
            cluster
            for cluster, of in self.promises.items()
            if all(until_s + 0.01 < now_s for until_s, _ in of.values())
        }


def nothing_starts_where_the_manager_is_silent(evidence: Evidence) -> Iterator[str]:
    """Nor does a job of its own queue start anywhere."""
    managers = Managers()
    for ended in evidence.ends_of_rounds(managers.learn):
        now_s = ended.ended_at_us / 1e6
        managers.end_round(now_s)
        silent = managers.silent(now_s)
        for start in _starts(evidence, ended.round):
            job = evidence.world.journal.submission(start.job_id)
            home = job.home_cluster if job is not None else ""
            for cluster in sorted({start.cluster, home} & silent):
                yield f"{start.job_id} starts in round {ended.round}: {cluster} is silent"


def _starts(evidence: Evidence, number: int) -> list[PlacementDecided]:
    decisions = evidence.by_round.get(number, [])
    return [d for d in decisions if d.verdict == VERDICT_START and not is_hostile(d.job_id)]


def _is_of(job_id: str, named: str) -> bool:
    """Whether a job is the one that is named, or a task of that."""
    return job_id == named or job_id.rpartition("_")[0] == named

"""What placement keeps of a region, and the messages that it folds."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from coplace.v1.accounts_pb2 import AccountStanding
from coplace.v1.control_pb2 import (
    ClusterDeclared,
    ClusterLost,
    ClusterReturned,
    ClusterUndeclared,
    LicencesDeclared,
    LimitsDeclared,
    ManagerAlive,
    NodePowerDeclared,
    NodesDrained,
    NodesResumed,
    PairsAllowed,
    PolicyDeclared,
    PowerCapDeclared,
    ReservationDeclared,
    ReservationRemoved,
)
from coplace.v1.energy_pb2 import CoefficientsPublished, SignatureUpdated
from coplace.v1.jobs_pb2 import (
    JobActionDone,
    JobActionRefused,
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobHeld,
    JobLimitChanged,
    JobPrioritized,
    JobReleased,
    JobRequeueAsked,
    JobRequeued,
    JobResumed,
    JobSeized,
    JobsReordered,
    JobStarted,
    JobSubmitted,
    JobSuspended,
)
from coplace.v1.plans_pb2 import PlanProposed
from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    NodePowerPublished,
    PairTreesChosen,
    PowerHistoryUpdated,
    PowerModelPublished,
    PowerTreesChosen,
    RunningPowerMeasured,
)
from coplace.v1.telemetry_pb2 import ShuttersMeasured
from google.protobuf.message import Message

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cluster import Cluster
from shared.domain.job import JobState
from shared.placement.state.declines import without_nodes
from shared.placement.state.job_facts import JobFacts
from shared.placement.state.job_requests import JobRequests
from shared.placement.state.job_table import JobTable
from shared.placement.state.licences import LicencePools
from shared.placement.state.manager_priorities import ManagerPriorities
from shared.placement.state.model_store import ModelStore
from shared.placement.state.node_power import ALL_ON, NodePowers
from shared.placement.state.node_states import Failure, NodeStates
from shared.placement.state.plans import Plans
from shared.placement.state.reservations import Reservations
from shared.placement.state.silent_managers import SilentManagers
from shared.placement.state.slowdown_guarantees import SlowdownGuarantees
from shared.placement.state.user_runs import UserRuns
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.state import State

# Applies an event with this payload. Raises RejectedError, EarlyError or AlreadyAppliedError, and
# then changes nothing.
Fold = Callable[[Event, Any], object]
Folds = Mapping[type[Message], Fold]
_PUBLISHED: Final = (
    AccountStanding,
    ClusterLost,
    CoefficientsPublished,
    DegradationModelPublished,
    LimitsDeclared,
    NodePowerPublished,
    PairTreesChosen,
    PowerCapDeclared,
    PowerHistoryUpdated,
    PowerModelPublished,
    PowerTreesChosen,
    SignatureUpdated,
)


class StateLayer:
    """Job records with their allocations, node states, models, policy, plan and guarantees."""

    def __init__(self, state: State, policy: PolicySettings, remember_days: float) -> None:
        self.models = ModelStore(state, policy)
        self.jobs = JobTable(state, remember_days, self.models.clusters.values())
        self.nodes = NodeStates(
            state, lambda: self.models.declared, lambda: self.models.node_names, self.models.rules
        )
        self.power = NodePowers(state, lambda: self.models.declared, lambda: self.models.node_names)
        for cluster in self.models.declared:
            self.jobs.allocations.switch(cluster, self.power.of(cluster))
        self.managers = SilentManagers(state, lambda: self.models.declared)
        self.reservations = Reservations(
            state,
            lambda: self.models.declared,
            lambda: self.models.node_names,
            self._free_from,
        )
        self.licences = LicencePools(state, lambda: self.models.declared)
        self.user_runs = UserRuns(state)
        self.plans = Plans(state)
        self.guarantees = SlowdownGuarantees(state, self.jobs)
        self._facts = facts = JobFacts(self.jobs)
        self._requests = requests = JobRequests(self.jobs)
        self._priorities = ManagerPriorities(self.jobs)
        self.folds: Folds = {
            **dict.fromkeys(_PUBLISHED, self._publish),
            ClusterReturned: self._return,
            ClusterDeclared: self._declare,
            ClusterUndeclared: self._undeclare,
            ManagerAlive: self._hear,
            PolicyDeclared: self._declare_policy,
            NodesDrained: self._drain,
            NodesResumed: self._resume,
            NodePowerDeclared: self._declare_power,
            LicencesDeclared: self.licences.declare,
            ReservationDeclared: self._reserve,
            ReservationRemoved: self._unreserve,
            PlanProposed: self.plans.propose,
            ShuttersMeasured: self.guarantees.measure,
            PairsAllowed: self.guarantees.allow,
            JobSubmitted: self._submit,
            JobRequeued: self._requeue,
            JobStarted: self._start,
            JobDeclined: self._decline,
            JobFinished: self._finish,
            JobActionDone: facts.action_done,
            JobActionRefused: facts.action_refused,
            JobLimitChanged: facts.change_limit,
            RunningPowerMeasured: self._correct_draw,
            JobCancelled: requests.cancel,
            JobHeld: requests.hold,
            JobReleased: requests.release,
            JobPrioritized: requests.prioritize,
            JobsReordered: self._reorder,
            JobSeized: requests.seize,
            JobRequeueAsked: requests.requeue,
            JobSuspended: requests.suspend,
            JobResumed: requests.resume,
        }

    def set_back(self, ended_us: int) -> None:
        """Set back what was said from clocks ahead of the end of this round, so that whatever comes
        in a later one is newer."""
        self.models.set_back(ended_us)
        self.licences.set_back(ended_us)
        self._priorities.set_back(ended_us)
        self.nodes.set_back(ended_us)
        self.power.set_back(ended_us)
        self.reservations.set_back(ended_us)
        self._requests.set_back(ended_us)

    def begin_round(self, now_s: float) -> None:
        """Forget what is too old, and number anew what has become much."""
        self.jobs.forget(now_s)
        self.models.forget(self.jobs.apps)
        for cluster in sorted(self.reservations.begin_round(now_s)):
            self._grant_again(cluster)
        self.jobs.allocations.forget_groups()

    def forget_undeclared(self) -> None:
        """Forget clusters that were undeclared and that no job has anything to do with."""
        for name in list(self.models.undeclared):
            if not self.jobs.needs(name):
                self.models.forget_cluster(name)
                self.jobs.allocations.forget(name)

    def due_s(self) -> Iterator[float]:
        """Return when a plan lets something start or ends, drained nodes are back, resource
        managers fall silent, and reservations begin and end."""
        yield from self.plans.due_s()
        yield from self.nodes.due_s()
        yield from self.managers.due_s()
        yield from self.reservations.due_s()

    def _publish(self, event: Event, _message: Message) -> None:
        self.models.fold(event)

    def _declare(self, event: Event, message: ClusterDeclared) -> None:
        before = self.models.clusters.get(message.cluster)
        self.models.fold(event)
        cluster = self.models.clusters[message.cluster]
        self.jobs.allocations.declare(cluster)
        self.jobs.allocations.switch(cluster.name, self.power.of(cluster.name))
        if before != cluster:
            self._grant_again(cluster.name)
        if before is not None and before.site != cluster.site:
            self.licences.remove_gone()
        if before is not None and _rating(before) != _rating(cluster):
            self.jobs.estimate_anew(cluster.name)
        self.nodes.touch(message.cluster)
        self.reservations.touch(message.cluster)

    def _undeclare(self, event: Event, message: ClusterUndeclared) -> None:
        self.models.fold(event)
        if message.cluster in self.models.undeclared:
            self.nodes.forget(message.cluster)
            self.power.forget(message.cluster)
            self.reservations.forget_cluster(message.cluster)
            self.licences.remove_gone()
            self.managers.close(message.cluster)
            self.jobs.allocations.close(message.cluster, {})
            self.jobs.allocations.switch(message.cluster, ALL_ON)

    def _return(self, event: Event, message: ClusterReturned) -> None:
        self.models.fold(event)
        self._grant_again(message.cluster)

    def _drain(self, event: Event, message: NodesDrained) -> None:
        self.models.require_since_undeclared(event, message.cluster)
        self.nodes.drain(event, message)
        self._change_nodes(message)

    def _resume(self, event: Event, message: NodesResumed) -> None:
        self.models.require_since_undeclared(event, message.cluster)
        self.nodes.resume(event, message)
        self._change_nodes(message)

    def _declare_power(self, event: Event, message: NodePowerDeclared) -> None:
        self.power.declare(event, message)
        self.jobs.allocations.switch(message.cluster, self.power.of(message.cluster))
        self.jobs.await_boots(message.cluster)

    def _free_from(self, cluster: str) -> Mapping[int, float]:
        """Return when each node is expected to be free that is not now. Drains count as they were
        folded: those that the last round closed are not known after a restart."""
        unavailable = self.nodes.unavailable(cluster)
        return self.jobs.allocations.occupancy[cluster].free_from(unavailable)

    def _reserve(self, event: Event, message: ReservationDeclared) -> None:
        self.models.require_since_undeclared(event, message.cluster)
        self.reservations.declare(event, message)
        self._grant_again(message.cluster)

    def _unreserve(self, event: Event, message: ReservationRemoved) -> None:
        self.models.require_since_undeclared(event, message.cluster)
        self.reservations.remove(event, message)
        self._grant_again(message.cluster)

    def _change_nodes(self, message: NodesDrained | NodesResumed) -> None:
        """Let jobs have nodes again that were refused before their state changed."""
        if not (refused := self.jobs.declined()):
            return
        names = self.models.node_names[message.cluster]
        changed = names.indices(message.nodes) if message.nodes else None
        for job in refused:
            self.jobs.refuse(job, without_nodes(job.declined, message.cluster, changed))

    def _hear(self, _event: Event, message: ManagerAlive) -> None:
        self.managers.hear(message)

    def _grant_again(self, cluster: str) -> None:
        """Forget what jobs were refused on a cluster that was declared otherwise or returned, or
        whose reservations changed, began or ended."""
        for job in self.jobs.declined():
            kept = tuple(each for each in job.declined if each.cluster != cluster)
            self.jobs.refuse(job, kept)

    def _decline(self, event: Event, message: JobDeclined) -> None:
        self._facts.decline(event, message, self.models.node_names)

    def _declare_policy(self, event: Event, _message: PolicyDeclared) -> None:
        self.models.fold(event)
        self.nodes.touch_all()

    def _submit(self, event: Event, message: JobSubmitted) -> None:
        self._facts.submit(event, message)
        job = self.jobs.known(message.job_id)
        if message.changed_at_us:
            self.plans.leave_out(message.job_id)
        if message.manager_priority and job.reordered is not None:
            self._priorities.reorder(job, message.manager_priority, event.time_us)
        if message.held_because:
            self._requests.note_asked(message.job_id)
        self.jobs.expect(job, self.user_runs.expected(job.job.user))

    def _reorder(self, _event: Event, message: JobsReordered) -> None:
        self._priorities.fold(message)

    def _start(self, event: Event, message: JobStarted) -> None:
        self._facts.start(event, message, self.models.node_names, self.models.clusters)

    def _correct_draw(self, event: Event, message: RunningPowerMeasured) -> None:
        self._facts.correct_draw(event, message, self.models.clusters)

    def _requeue(self, event: Event, message: JobRequeued) -> None:
        failure = Failure(message.requeued_at_us, message.job_id, message.attempt - 1)
        with self._noting(message, failure):
            self._facts.requeue(event, message)

    def _finish(self, event: Event, message: JobFinished) -> None:
        failure = Failure(message.ended_at_us, message.job_id, message.attempt)
        with self._noting(message, failure):
            self._facts.finish(event, message, self.models.node_names)
        job = self.jobs.known(message.job_id)
        if job.life.state is JobState.FINISHED:
            self.user_runs.note(job.job.user, message)

    @contextmanager
    def _noting(self, message: JobRequeued | JobFinished, failure: Failure) -> Iterator[None]:
        """Note the nodes that failed under a job, also where the fact is late for the job; not of
        one that is refused."""
        try:
            yield
        except AlreadyAppliedError:
            self._fail_nodes(message, failure)
            raise
        self._fail_nodes(message, failure)

    def _fail_nodes(self, message: JobRequeued | JobFinished, failure: Failure) -> None:
        is_news = self.models.is_since_undeclared(failure.at_us, message.cluster)
        if message.failed_nodes and is_news:
            self.nodes.fail(message.cluster, message.failed_nodes, failure)


def _rating(cluster: Cluster) -> tuple[object, ...]:
    """Return what the most that a job draws there follows from."""
    return cluster.most_node_w, cluster.idle_power_w, cluster.cores_per_node, cluster.node_classes

"""Resource managers as the how-to asks for them, with whims: they answer late, hold reports back,
are silent, run jobs that fail or go back into the queue, and restart from old decisions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
    JOB_OUTCOME_TIMED_OUT,
    REFUSED_KIND_FEATURE,
    REFUSED_KIND_PARTITION,
    REFUSED_KIND_RESERVATION,
    JobActionDone,
    JobActionRefused,
    JobDeclined,
    JobFinished,
    JobOutcome,
    JobRequeued,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_REQUEUE,
    ACTION_KIND_RESUME,
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    Action,
    PlacementDecided,
)

from coplace_client.millicores import beside_cores, whole_cores
from coplace_testing.topics import TopicReader
from shared.catalogue.record import TopicPartition
from shared.domain.hostlist import expand
from shared.domain.node import node_name
from tests.chaos.clock import BEGIN_US, SECOND_US, Clock, some_time_us
from tests.chaos.journal import End, Journal, Run
from tests.chaos.network import Network

DECISIONS: Final = "placement.decisions"
_OUTCOMES: Final = (JOB_OUTCOME_COMPLETED, JOB_OUTCOME_FAILED, JOB_OUTCOME_TIMED_OUT)

# A job whose submission did not come through ingest.
_NOBODYS: Final = JobSubmitted(user="nobody", account="nobody", submitted_at_us=BEGIN_US)


@dataclass(slots=True)
class Temper:
    """How a resource manager behaves: how long it takes to start what was decided, how long its
    reports are on their way, until when it is silent, and the shares of starts that it declines, of
    runs that go back into the queue and of actions that it refuses; `names_refused` is the share of
    declines that name nodes or something that the job asked for."""

    start_within_us: int = 20 * SECOND_US
    report_within_us: int = 5 * SECOND_US
    silent_until_us: int = 0
    declines: float = 0.03
    names_refused: float = 0.0
    requeues: float = 0.1
    refuses: float = 0.1


Grant = tuple[str, int, int]


def node_names_of(decided: PlacementDecided, cluster: str) -> tuple[str, ...]:
    """The names of the nodes that a start gives."""
    names = expand(",".join(decided.node_names)) if decided.node_names else ()
    return tuple(names) or tuple(node_name(cluster, index) for index in decided.node_indices)


@dataclass(slots=True)
class Pending:
    """A start that was decided and is not obeyed yet."""

    decided: PlacementDecided
    due_us: int


class Manager:
    """The resource manager of one cluster, and what it did.

    It keeps to the rule of grants: of each it makes one start or one decline, once. Grant 0 is that
    of decisions that number none; nobody can decline it.
    """

    def __init__(
        self,
        cluster: str,
        rng: Random,
        clock: Clock,
        network: Network,
        journal: Journal,
        site: str = "site",
    ) -> None:
        self.cluster, self.site = cluster, site
        self.temper = Temper()
        self.inbox: list[PlacementDecided] = []
        self._rng, self._clock, self._network, self._journal = rng, clock, network, journal
        self._pending: dict[Grant, Pending] = {}
        self._runs: dict[Grant, Run] = {}
        self._ends: dict[Grant, int] = {}
        # What it was asked to do to runs, and how long suspended ones have to run yet.
        self._asked: list[tuple[int, Grant, Action]] = []
        self._answered: dict[Grant, int] = {}
        self._still: dict[Grant, int] = {}
        self._claimed: set[Grant] = set()
        self._began: set[Grant] = set()

    @property
    def is_idle(self) -> bool:
        """Nothing runs and nothing is to be started."""
        return not (self._pending or self._runs or self.inbox)

    def act(self) -> None:
        """Take in what was decided, then start and end what is due; nothing while it is silent."""
        now_us = self._clock.now_us
        if now_us < self.temper.silent_until_us:
            return
        inbox, self.inbox = self.inbox, []
        for decided in inbox:
            self._obey(decided)
        for grant, pending in list(self._pending.items()):
            if pending.due_us <= now_us:
                del self._pending[grant]
                self._start(grant, pending.decided)
        due = [each for each in self._asked if each[0] <= now_us]
        self._asked = [each for each in self._asked if each[0] > now_us]
        for _, grant, action in due:
            self._do(grant, action)
        for grant, ends_us in list(self._ends.items()):
            if ends_us <= now_us:
                self._end(grant)

    def run_alone(self, submitted: JobSubmitted, names: Sequence[str], cores: int) -> bool:
        """Run a job that nobody granted, on nodes that are free here, and report its start before
        its submission; False where there is no room."""
        taken = {node for run in self._runs.values() for node in run.nodes}
        free = [name for name in names if name not in taken]
        if len(free) < submitted.nodes or self._clock.now_us < self.temper.silent_until_us:
            return False
        grant = submitted.job_id, submitted.attempt, 0
        nodes = tuple(free[: submitted.nodes])
        limit_us = round(submitted.walltime_s * 1e6)
        self._run(grant, nodes, (1,) * len(nodes), cores, limit_us, 0.0)
        self._journal.own[submitted.job_id] = submitted
        return True

    def ran(self, submitted: JobSubmitted, node: str, cores: int) -> JobFinished | None:
        """A job that ran here long ago on a node, to its limit; None where another one did."""
        began_us = submitted.submitted_at_us
        ended_us = began_us + round(submitted.walltime_s * 1e6)
        run = Run(submitted.job_id, 1, self.cluster, (node,), (1,), cores, began_us, ended_us)
        others = [other for other in self._journal.runs if other.cluster == self.cluster]
        if any(run.overlaps(other) and node in other.nodes for other in others):
            return None
        self._journal.runs.append(run)
        self._journal.own[submitted.job_id] = submitted
        return JobFinished(
            job_id=submitted.job_id,
            attempt=1,
            outcome=JOB_OUTCOME_COMPLETED,
            cluster=self.cluster,
            user=submitted.user,
            account=submitted.account,
            nodes=1,
            cores_per_node=cores,
            submitted_at_us=began_us,
            started_at_us=began_us,
            ended_at_us=ended_us,
        )

    def power_off(self) -> list[Grant]:
        """Its nodes lose their power: nothing runs or starts any more, and nobody reports it. What
        was there."""
        gone = [*self._pending, *self._runs]
        self._pending.clear()
        for grant in list(self._runs):
            self._close(grant, End.POWER)
        self._claimed.update(gone)
        return gone

    def end_all(self) -> None:
        """Let everything end soon."""
        self._ends = dict.fromkeys(self._ends, 0)
        self._still = dict.fromkeys(self._still, 0)

    def _obey(self, decided: PlacementDecided) -> None:
        """Each decision may come again."""
        grant = decided.job_id, decided.attempt, decided.grant
        if decided.verdict == VERDICT_START and grant not in self._claimed:
            delay_us = some_time_us(self._rng, 1000, self.temper.start_within_us)
            self._claimed.add(grant)
            self._pending[grant] = Pending(decided, self._clock.now_us + delay_us)
        elif decided.verdict == VERDICT_WITHDRAWN:
            if grant not in self._runs:
                self._decline(grant, "withdrawn")
            elif decided.is_void:
                self._close(grant, End.VOID)
        elif decided.verdict == VERDICT_ACTION:
            delay_us = some_time_us(self._rng, 1000, self.temper.start_within_us)
            self._asked.append((self._clock.now_us + delay_us, grant, decided.action))
        elif decided.verdict == VERDICT_CANCELLED:
            if grant in self._runs:
                self._finish(grant, JOB_OUTCOME_CANCELLED)
            else:
                self._decline(grant, "cancelled")

    def _start(self, grant: Grant, decided: PlacementDecided) -> None:
        is_late = 0 < decided.start_by_us < self._clock.now_us
        if is_late or (decided.grant and self._rng.random() < self.temper.declines):
            refused = {} if is_late else self._refused(decided)
            self._decline(grant, "too late" if is_late else "a node is drained", **refused)
            return
        nodes = node_names_of(decided, self.cluster)
        if any(key[2] == 0 and {*nodes} & {*run.nodes} for key, run in self._runs.items()):
            self._decline(grant, "a job of the resource manager's own runs there")
            return
        limit_us = round(decided.walltime_s * 1e6)
        units = tuple(decided.node_units) or (1,) * len(nodes)
        self._run(grant, nodes, units, decided.cores_per_node, limit_us, decided.freq_ghz)
        self._runs[grant].millicores_per_unit = decided.millicores_per_unit

    def _run(
        self,
        grant: Grant,
        nodes: tuple[str, ...],
        units: tuple[int, ...],
        cores: int,
        limit_us: int,
        freq_ghz: float,
    ) -> None:
        now_us, (job_id, attempt, number) = self._clock.now_us, grant
        run = Run(job_id, attempt, self.cluster, nodes, units, cores, now_us, grant=number)
        self._runs[grant] = run
        self._began.add(grant)
        self._journal.runs.append(run)
        self._ends[grant] = now_us + min(some_time_us(self._rng, SECOND_US, 3 * limit_us), limit_us)
        started = JobStarted(
            job_id=job_id,
            attempt=attempt,
            cluster=self.cluster,
            nodes=nodes,
            node_units=units if max(units) > 1 else (),
            freq_ghz=freq_ghz,
            started_at_us=now_us,
            grant=number,
        )
        self._report(f"{job_id}/{attempt}", number, job_started=started)

    def _do(self, grant: Grant, action: Action) -> None:
        """Act on a run, or refuse to, once: an older word than the last one means nothing."""
        if grant not in self._runs or action.number <= self._answered.get(grant, 0):
            return
        self._answered[grant] = action.number
        job_id, attempt, number = grant
        of: dict[str, Any] = {
            "job_id": job_id,
            "attempt": attempt,
            "grant": number,
            "number": action.number,
        }
        subject, now_us = f"{job_id}/{attempt}/{number}", self._clock.now_us
        if self._rng.random() < self.temper.refuses:
            refused = JobActionRefused(**of, reason="not now", refused_at_us=now_us)
            self._report(subject, action.number, job_action_refused=refused)
            return
        if action.kind == ACTION_KIND_END:
            self._finish(grant, JOB_OUTCOME_CANCELLED)
            return
        if action.kind == ACTION_KIND_REQUEUE:
            self._put_back(grant, "it was asked for", failed_nodes=0)
            return
        if action.kind == ACTION_KIND_SUSPEND and grant in self._ends:
            self._still[grant] = max(0, self._ends.pop(grant) - now_us)
        elif action.kind == ACTION_KIND_RESUME and grant in self._still:
            self._ends[grant] = now_us + self._still.pop(grant)
        done = JobActionDone(**of, done_at_us=now_us, freq_ghz=action.freq_ghz)
        self._report(subject, action.number, job_action_done=done)

    def _refused(self, decided: PlacementDecided) -> dict[str, Any]:
        """What of a start it can't give, where it says so."""
        rng, job = self._rng, self._journal.submission(decided.job_id)
        if not self.temper.names_refused or rng.random() >= self.temper.names_refused:
            return {}
        kinds = {
            REFUSED_KIND_PARTITION: decided.partition,
            REFUSED_KIND_FEATURE: job.features if job is not None else "",
            REFUSED_KIND_RESERVATION: job.reservation if job is not None else "",
        }
        named = [(kind, name) for kind, name in kinds.items() if name]
        if named and rng.random() < 0.5:
            kind, name = rng.choice(named)
            return {"refused_kind": kind, "refused_name": name}
        nodes = node_names_of(decided, self.cluster)
        return {"refused_nodes": rng.sample(nodes, rng.randint(1, len(nodes)))}

    def _decline(self, grant: Grant, reason: str, **refused: Any) -> None:
        self._pending.pop(grant, None)
        self._claimed.add(grant)
        job_id, attempt, number = grant
        # What it started it cannot decline any more, although it may have ended.
        if number and grant not in self._began:
            declined = JobDeclined(
                job_id=job_id,
                attempt=attempt,
                grant=number,
                reason=reason,
                declined_at_us=self._clock.now_us,
                **refused,
            )
            self._report(f"{job_id}/{attempt}", number, job_declined=declined)

    def _end(self, grant: Grant) -> None:
        """Most end; some go back into the queue."""
        if self._rng.random() < self.temper.requeues:
            self._put_back(grant, "node failure", failed_nodes=self._rng.randint(0, 1))
        else:
            self._finish(grant, self._rng.choice(_OUTCOMES))

    def _put_back(self, grant: Grant, reason: str, *, failed_nodes: int) -> None:
        run = self._close(grant, End.REQUEUED)
        run.failed = run.nodes[:failed_nodes]
        requeued = JobRequeued(
            job_id=run.job_id,
            attempt=run.attempt + 1,
            reason=reason,
            requeued_at_us=self._clock.now_us,
            cluster=self.cluster,
            failed_nodes=run.nodes[:failed_nodes],
            grant=grant[2],
        )
        self._report(run.job_id, run.attempt + 1, job_requeued=requeued)

    def _close(self, grant: Grant, end: End) -> Run:
        run = self._runs.pop(grant)
        run.ended_us, run.end = self._clock.now_us, end
        self._ends.pop(grant, None)
        self._still.pop(grant, None)
        return run

    def _finish(self, grant: Grant, outcome: JobOutcome.ValueType) -> None:
        run = self._close(grant, End.FINISHED)
        own = self._journal.own.get(run.job_id, _NOBODYS)
        submitted = self._journal.submission(run.job_id) or own
        held = sum(run.units) * run.millicores_per_unit
        finished = JobFinished(
            job_id=run.job_id,
            attempt=run.attempt,
            outcome=outcome,
            cluster=self.cluster,
            app_id=submitted.app_id,
            user=submitted.user,
            account=submitted.account,
            nodes=sum(run.units),
            cores_per_node=run.cores_per_unit,
            cores=whole_cores(held),
            millicores=beside_cores(held),
            submitted_at_us=min(submitted.submitted_at_us, run.began_us),
            started_at_us=run.began_us,
            ended_at_us=self._clock.now_us,
            grant=grant[2],
        )
        self._report(run.job_id, run.attempt, job_finished=finished)

    def _report(self, subject: str, sequence: int, **payload: object) -> None:
        [fact] = payload.values()
        source = f"{self.site}/{self.cluster}"
        name = fact.DESCRIPTOR.full_name  # type: ignore[attr-defined]
        envelope = Envelope(
            id=f"{source}/{name}/{subject}/{sequence}",
            source=source,
            time_us=self._clock.now_us,
            **payload,  # type: ignore[arg-type]
        )
        delay_us = some_time_us(self._rng, 1000, self.temper.report_within_us)
        self._network.send(envelope, delay_us)
        if self._rng.random() < 0.1:
            self._network.send(envelope, delay_us * 3)


@dataclass(slots=True)
class Managers:
    """One resource manager for each cluster that a decision names."""

    decisions: TopicReader
    create: Callable[[str], Manager]
    found: dict[str, Manager] = field(default_factory=dict)

    def of(self, cluster: str) -> Manager:
        """The resource manager of a cluster."""
        if cluster not in self.found:
            self.found[cluster] = self.create(cluster)
        return self.found[cluster]

    def read(self) -> None:
        """Hear what was decided since the last call."""
        for decided in (event.payload for event in self.decisions.read()):
            if isinstance(decided, PlacementDecided) and decided.cluster:
                self.of(decided.cluster).inbox.append(decided)

    def act(self) -> None:
        """Let each do what is due."""
        for manager in self.found.values():
            manager.act()

    def rewind(self, partition: TopicPartition, by: int) -> None:
        """They crashed before they noted how far they had read: decisions come again."""
        self.decisions.rewind(partition, by)

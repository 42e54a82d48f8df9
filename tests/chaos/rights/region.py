"""The region: stages of placement and pricing over one log, behind the door of ingest."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Final

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from coplace_client.errors import RejectedError
from coplace_testing.ingest import EmbeddedIngest
from coplace_testing.topics import TopicReader
from services.ingest.judge import Judge, needs_newest
from services.ingest.model import Intake
from services.ingest.region import FOLDED, KnownRegion
from shared.authority.table import AuthorityTable, TableInForce
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event, Publish
from shared.domain.node import node_name
from shared.streams.in_memory.log import InMemoryLog
from tests.chaos.clock import DAY_US, SECOND_US, Clock, some_time_us
from tests.chaos.journal import Run
from tests.chaos.managers import DECISIONS, Grant, Manager
from tests.chaos.network import Network
from tests.chaos.rights.cast import (
    BINDINGS,
    CLUSTERS,
    MOST_CLUSTERS,
    identity_of,
    role_of,
)
from tests.chaos.world import Scale, World


def nodes_of(decided: PlacementDecided) -> tuple[str, ...]:
    """The nodes that a start was given."""
    return tuple(node_name(decided.cluster, index) for index in decided.node_indices)


# Of starts: who had a grant and gave it back has no right any more.
_DECLINES: Final = 0.1
_REMEMBER_US: Final = 30 * DAY_US


class LaggingGate:
    """The door's judgement, over topics that it reads behind. It catches up where the service does:
    before it refuses, and before a permission that needs the newest."""

    def __init__(self, log: InMemoryLog, codec: Codec, clock: Clock, lag_us: int) -> None:
        table = TableInForce()
        table.now = AuthorityTable(1, BINDINGS)
        self._known = KnownRegion(_REMEMBER_US, MOST_CLUSTERS)
        self._judge = Judge(table, self._known)
        self._clock, self._lag_us = clock, lag_us
        self._topics = TopicReader(log, codec, list(FOLDED))
        self._unread: deque[tuple[int, Event]] = deque()

    def admit(self, identity: str, action: str, accepted: Publish) -> None:
        """Raise RejectedError where an identity may not say it."""
        self._unread.extend((self._clock.now_us, event) for event in self._topics.read())
        self._fold_until(self._clock.now_us - self._lag_us)
        request, verdict = self._judge.judge(identity, action, accepted)
        if not verdict.is_allowed or needs_newest(request):
            self._fold_until(self._clock.now_us)
            _, verdict = self._judge.judge(identity, action, accepted)
        if not verdict.is_allowed:
            raise RejectedError("identity", verdict.reason)

    def _fold_until(self, limit_us: int) -> None:
        while self._unread and self._unread[0][0] <= limit_us:
            self._known.fold(self._unread.popleft()[1])


@dataclass(frozen=True, slots=True)
class Act:
    """What somebody says: by which credential, of which kind, and whether it is true and its own to
    say."""

    credential: str
    kind: str
    is_rightful: bool


@dataclass(frozen=True, slots=True)
class Target:
    """A run, or a grant that nobody has started yet."""

    job_id: str
    attempt: int
    grant: int
    cluster: str
    nodes: tuple[str, ...]
    began_us: int

    @classmethod
    def of(cls, run: Run) -> "Target":
        """A run."""
        return cls(run.job_id, run.attempt, run.grant, run.cluster, run.nodes, run.began_us)


@dataclass(slots=True)
class Mail(Network):
    """Network whose messages show the credential of their source. `acts` counts what came of each
    kind of act, `unjust` why what was true was refused; `refusals` has the reason of each message
    that was."""

    acts: Counter[tuple[Act, bool]] = field(default_factory=Counter)
    refusals: dict[str, str] = field(default_factory=dict)
    unjust: Counter[tuple[str, str]] = field(default_factory=Counter)
    _of: dict[str, Act] = field(default_factory=dict)

    def say(self, envelope: Envelope, act: Act, delay_us: int = 0) -> None:
        """Put a message on its way, and note what it is."""
        self._of[envelope.id] = act
        Network.send(self, envelope, delay_us)

    def _arrive(self, envelope: Envelope) -> None:
        name, identity = str(envelope.WhichOneof("payload")), identity_of(envelope.source)
        # Resource managers say the truth of what they hold.
        act = self._of.get(envelope.id) or Act(role_of(envelope.source), name, True)
        self.delivered += 1
        try:
            accepted = self.ingest.take(envelope, self.clock.now_us, identity)
        except RejectedError as error:
            self.journal.refused += 1
            self.refusals.setdefault(envelope.id, error.problem)
            self.acts[act, False] += 1
            if act.is_rightful:
                self.unjust[act.kind, error.problem] += 1
            return
        self.acts[act, True] += 1
        self.journal.acknowledge(accepted.event)


class Region(World):
    """What there is. `ordered` are the jobs that were asked, by right, to end, to be suspended or
    to wait again; `probes` are jobs that wait for one that their user may not see, with that
    one; `granted` are the clusters that each job was granted to, the last one last, and `newest`
    has its newest grant; of the jobs `told_by_owner` their owner said what it did not know;
    `unheard` is what lost its power, and when the operator hears of that."""

    services: ClassVar[Sequence[str]] = ("placement", "pricing")

    def __init__(self, rng: Random, lag_us: int) -> None:
        self.lag_us = lag_us
        super().__init__(rng, Scale(kafka_partitions=rng.choice([1, 2]), workers=1))
        self.mail = Mail(self._ingest(), self.journal, self.clock)
        self.network: Network = self.mail
        self.sites = {name: site for name, (site, _) in CLUSTERS.items()}
        self.ordered: set[str] = set()
        self.probes: dict[str, str] = {}
        self.granted: dict[str, dict[str, None]] = {}
        self.starts: list[Target] = []
        self.newest: dict[str, Target] = {}
        self.told_by_owner: set[str] = set()
        self.unheard: list[tuple[int, list[Grant]]] = []
        self._heard = TopicReader(self.log, self.codec, [DECISIONS])
        self._said = 0

    def say(
        self,
        credential: str,
        kind: str,
        *,
        is_rightful: bool,
        delay_us: int = 0,
        time_us: int = 0,
        **payload: Any,
    ) -> str:
        """Send something by a credential, and return the id of the message."""
        self._said += 1
        envelope = Envelope(
            id=f"{credential}/said/{self._said}",
            source=credential,
            time_us=time_us or self.clock.now_us,
            **payload,
        )
        self.mail.say(envelope, Act(role_of(credential), kind, is_rightful), delay_us)
        return envelope.id

    def let_pass(self, most_us: int) -> None:
        """Some time passes, and everybody does what there is to do."""
        self.clock.advance(some_time_us(self.rng, 1000, most_us))
        self.network.deliver()
        self.run_until_quiet()
        for worker in self.workers:
            worker.close_rounds()
        self.run_until_quiet()
        self.managers.read()
        self.managers.act()
        for heard in [each for each in self.unheard if each[0] <= self.clock.now_us]:
            self.unheard.remove(heard)
            self.operator.vouch(heard[1])
        self.operator.act()

    def settle(self, period_us: int = 30 * SECOND_US) -> None:
        """Time passes and everybody does all that there is to do."""
        self.clock.advance(period_us)
        for worker in self.workers:
            worker.start()
        self.let_pass(1001)

    def hear(self) -> list[PlacementDecided]:
        """What was decided since the last call."""
        found = []
        for event in self._heard.read():
            told = event.payload
            if not isinstance(told, PlacementDecided):
                continue
            found.append(told)
            if told.verdict == VERDICT_START:
                clusters = self.granted.setdefault(told.job_id, {})
                clusters.pop(told.cluster, None)
                clusters[told.cluster] = None
                nodes = nodes_of(told)
                start = told.job_id, told.attempt, told.grant, told.cluster, nodes
                self.starts.append(Target(*start, told.decided_at_us))
                self.newest[told.job_id] = self.starts[-1]
        return found

    def submission(self, job_id: str) -> JobSubmitted | None:
        """The submission that was taken first, or what a resource manager ran by itself."""
        return self.journal.submissions.get(job_id) or self.journal.own.get(job_id)

    def _new_manager(self, cluster: str) -> Manager:
        rng = Random(f"{cluster}/{self.rng.random()}")
        site = self.sites.get(cluster, "nowhere")
        manager = Manager(cluster, rng, self.clock, self.network, self.journal, site)
        manager.temper.declines = _DECLINES
        return manager

    def _ingest(self) -> EmbeddedIngest:
        gate: Any = LaggingGate(self.log, self.codec, self.clock, self.lag_us)
        return EmbeddedIngest(self.log, self.codec, Intake(self.codec.topics), gate)

"""What placement knows beside jobs: clusters, limits, signatures and models, as last published."""

from collections.abc import Callable, Mapping, Set

from coplace.v1.accounts_pb2 import STANDING_REFUSED, AccountStanding
from coplace.v1.control_pb2 import (
    ClusterDeclared,
    ClusterLost,
    ClusterReturned,
    ClusterUndeclared,
    LimitsDeclared,
    PolicyDeclared,
    PowerCapDeclared,
)
from coplace.v1.energy_pb2 import CoefficientsPublished, SignatureUpdated
from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    NodePowerPublished,
    PairTreesChosen,
    PowerHistoryUpdated,
    PowerModelPublished,
    PowerTreesChosen,
)
from google.protobuf.message import Message

from coplace_client.checks import require_not_negative
from coplace_client.errors import RejectedError
from coplace_client.signature import Signature
from shared.catalogue.digest import Model, require_sha256
from shared.catalogue.event import Event
from shared.catalogue.options import owners
from shared.catalogue.payloads.coefficients import coefficients_of
from shared.catalogue.payloads.domain_types import cluster_of, signatures_of
from shared.catalogue.payloads.pair_trees import chosen_pair_trees
from shared.catalogue.payloads.power_history import kind_of, update_of
from shared.catalogue.payloads.power_trees import chosen_trees
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cluster import Cluster, require_few_clusters
from shared.domain.coefficients import Coefficients
from shared.domain.node import NodeNames
from shared.models.pair_trees import PAIRS_ORIGIN, PairTrees
from shared.placement.state import caps as power_caps
from shared.placement.state import payloads
from shared.placement.state.closure import Closure
from shared.placement.state.limits import Limit, Subject, SubjectKind, limit_of
from shared.placement.state.model_updates import ModelUpdates
from shared.placement.state.policy_in_force import PolicyInForce, ranking_by
from shared.placement.state.stamps import is_ahead, require_newer, set_event_back, stamp_of
from shared.power_prediction.kinds import KindOfJob
from shared.power_prediction.power_model import PowerModel
from shared.power_prediction.similar_jobs import ORIGIN
from shared.power_prediction.trees import TREES_ORIGIN
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.events import EVENTS
from shared.streams.state.state import State


class ModelStore:
    """Folds publications; the newest of each subject replaces the one before."""

    def __init__(self, state: State, rules: PolicySettings) -> None:
        self.rules = PolicyInForce(state, rules)
        self.power_model = PowerModel()
        self.node_factors: Mapping[str, Mapping[int, float]] = {}
        self.degradation: payloads.Degradation | None = None
        self.pair_trees: PairTrees | None = None
        self._most_applications = rules.most_applications
        self._caps: dict[power_caps.Covered, power_caps.Declared] = {}
        self._clusters: dict[str, Cluster] = {}
        self._with_down: frozenset[str] = frozenset()
        self._coefficients: dict[str, Coefficients] = {}
        self._signatures: dict[str, dict[str, tuple[Signature, ...]]] = {}
        # Counts of what was folded that rules for neighbours may follow from, and of evictions.
        self.revision = 0
        self.evictions = 0
        self._names: dict[str, NodeNames] = {}
        self._lost: dict[str, Closure] = {}
        self._undeclared: dict[str, Closure] = {}
        self.updates = ModelUpdates(state)
        self._limits: dict[Subject, Limit] = {}
        self._limited_partitions: set[str] = set()
        self._limited_sites: set[str] = set()
        self._limited_by: dict[Subject, str] = {}
        self._refused: dict[str, str] = {}
        self._newest = state.table("publication", EVENTS)
        # Commands since the last round ended; after a restart all.
        self._declared_now = {key for key, event in self._newest.items() if event.type in owners()}
        for key, event in self._newest.items():
            self._restore(key, event)
        self.node_factors = self._node_factors()

    def _restore(self, key: str, event: Event) -> None:
        """Forget what is known of power by the tables or trees of another version."""
        if _is_foreign(event.payload):
            self._newest.drop(key)
        else:
            self._take(event)
            self._revise(event.payload)

    def forget(self, in_use: Callable[[], Set[str]]) -> None:
        """Keep no more applications a node model than are allowed: those whose signatures are
        oldest go, unless they are in use."""
        for node_model, rows in self._signatures.items():
            if len(rows) > self._most_applications:
                self._forget_oldest(node_model, rows, in_use())

    def fold(self, event: Event) -> None:
        """Take a publication in.

        Raises RejectedError for one that cannot be used, AlreadyAppliedError for one that is not
        newer than what is known of its subject.
        """
        if isinstance(event.payload, PolicyDeclared):
            self._declare_rules(event, event.payload)
            return
        if isinstance(event.payload, PowerCapDeclared):
            # Not where it is restored: nodes may have come since.
            covered = power_caps.Covered(power_caps.SCOPES[event.payload.scope], event.payload.name)
            power_caps.require_possible(event.payload, self._clusters, self.idle_mw(covered))
            power_caps.require_rated(event.payload, self.declared.values())
        self._require_declared_since(event)
        before = self._known_of(event.payload)
        self._fold(event)
        if isinstance(event.payload, ClusterDeclared):
            self.node_factors = self._node_factors()
        self._note_update(event.payload, before)

    def _declare_rules(self, event: Event, message: PolicyDeclared) -> None:
        before = ranking_by(self.rules.now)
        if self.rules.declare(event, message):
            self.updates.of_all()
            self.rules.rank_earlier(self.updates.number, before)
        self.revision += 1

    def _require_declared_since(self, event: Event) -> None:
        """Raise RejectedError for the undeclaration of what is not declared, AlreadyAppliedError
        for what was said of a cluster before it was undeclared."""
        message = event.payload
        if isinstance(message, ClusterUndeclared) and message.cluster not in self.declared:
            raise RejectedError("cluster", f"{message.cluster[:80]!r} is not declared")
        if isinstance(message, ClusterDeclared | ClusterLost | ClusterReturned):
            self.require_since_undeclared(event, message.cluster)

    def require_since_undeclared(self, event: Event, cluster: str) -> None:
        """Raise OvertakenError for what was said of a cluster before it was undeclared: where it is
        declared again, a copy of that says nothing of it."""
        undeclared = self._newest.get(_undeclaration(cluster))
        if undeclared:
            require_newer(event, stamp_of(undeclared))

    def is_since_undeclared(self, time_us: int, cluster: str) -> bool:
        """Return whether a cluster was not undeclared since a time."""
        undeclared = self._newest.get(_undeclaration(cluster))
        return undeclared is None or undeclared.time_us < time_us

    def _known_of(self, message: Message) -> object:
        """Return what is known now of a message's subject, if jobs are evaluated by it."""
        match message:
            case ClusterDeclared():
                there = message.cluster not in self._undeclared
                return self._clusters.get(message.cluster) if there else None
            case CoefficientsPublished():
                return self._coefficients.get(message.node_model)
            case SignatureUpdated():
                return self._signatures.get(message.node_model, {}).get(message.app_id)
        return None

    def _note_update(self, message: Message, before: object) -> None:
        """Number what was folded where jobs that wait were evaluated by what it replaces."""
        match message:
            case ClusterDeclared() if self._known_of(message) == before:
                return
            case ClusterDeclared() | ClusterUndeclared() | CoefficientsPublished():
                self.updates.of_all()
            case SignatureUpdated() if not before:
                self.updates.of_app(message.app_id)

    def _fold(self, event: Event) -> None:
        key = _subject(event.payload)
        newest = self._newest.get(key)
        if newest is not None and event.type in owners():
            require_newer(event, stamp_of(newest))
        elif newest is not None and _order(event) <= _order(newest):
            raise AlreadyAppliedError(event.id)
        self._take(event)
        self._newest.put(key, event)
        if event.type in owners():
            self._declared_now.add(key)
        self._revise(event.payload)

    def set_back(self, ended_us: int) -> None:
        """Set back what was declared from a clock ahead of the end of this round."""
        for key in sorted(self._declared_now):
            event = self._newest.get(key)
            if event is not None and is_ahead(event.time_us, ended_us):
                self._newest.put(key, set_event_back(event, ended_us))
        self._declared_now.clear()
        self.rules.set_back(ended_us)

    def _revise(self, message: Message) -> None:
        if not isinstance(message, PowerHistoryUpdated | PowerTreesChosen):
            self.revision += 1

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """Return the known clusters by name, in the order of their names: those that are declared,
        and the undeclared ones that jobs still refer to."""
        return self._clusters

    @property
    def node_names(self) -> Mapping[str, NodeNames]:
        """Return the names of the nodes of each known cluster."""
        return self._names

    @property
    def declared(self) -> Mapping[str, Cluster]:
        """Return the clusters that are declared: the known ones but those undeclared since."""
        if not self._undeclared:
            return self._clusters
        return {name: c for name, c in self._clusters.items() if name not in self._undeclared}

    @property
    def with_down_partitions(self) -> Set[str]:
        """Return the clusters of which some partition is down."""
        return self._with_down

    @property
    def undeclared(self) -> Mapping[str, Closure]:
        """Return the clusters that were undeclared and that jobs still refer to."""
        return self._undeclared

    @property
    def lost(self) -> Mapping[str, Closure]:
        """Return the clusters that are out of reach."""
        return self._lost

    @property
    def closed(self) -> Mapping[str, Closure]:
        """Return the clusters on which nothing starts: lost or undeclared."""
        return {**self._lost, **self._undeclared} if self._undeclared else self._lost

    def forget_cluster(self, name: str) -> None:
        """Remove a cluster that was undeclared. Its undeclaration is remembered, so that copies of
        earlier messages on it change nothing."""
        del self._clusters[name], self._names[name], self._undeclared[name]
        self._with_down -= {name}
        self.revision += 1
        self.node_factors = self._node_factors()
        self._forget_word(ClusterDeclared, name)

    def _forget_word(self, kind: type[Message], cluster: str) -> None:
        self._newest.drop(f"{kind.DESCRIPTOR.full_name}/{cluster}")

    @property
    def limits(self) -> Mapping[Subject, Limit]:
        """Return the declared limits."""
        return self._limits

    @property
    def limited_partitions(self) -> Set[str]:
        """Return the partitions that a limit was declared of."""
        return self._limited_partitions

    @property
    def limited_sites(self) -> Set[str]:
        """Return the sites that a limit was declared for."""
        return self._limited_sites

    def limited_by(self, subject: Subject) -> str:
        """Return who declared a limit."""
        return self._limited_by.get(subject, "")

    @property
    def refused(self) -> Mapping[str, str]:
        """Return the accounts that have nothing left, with what was allocated to them, SU."""
        return self._refused

    @property
    def caps(self) -> Mapping[power_caps.Covered, power_caps.Declared]:
        """Return the declared caps of power of clusters, sites and the region."""
        return self._caps

    def is_capped(self, cluster: str) -> bool:
        """Return whether a cap is declared that a cluster is part of."""
        on = self._clusters.get(cluster)
        return on is not None and any(covered.covers(on) for covered in self._caps)

    def idle_mw(self, covered: power_caps.Covered) -> int:
        """Return the idle power that counts against a cap, mW: 0 where the policy counts none."""
        return (
            power_caps.idle_mw(covered, self._clusters.values())
            if self.rules.now.cap_counts_idle
            else 0
        )

    @property
    def coefficients(self) -> Mapping[str, Coefficients]:
        """Return the published coefficients by node model."""
        return self._coefficients

    def signatures(self, node_model: str) -> Mapping[str, tuple[Signature, ...]]:
        """Return the signatures on a node model by application."""
        return self._signatures.get(node_model, {})

    @property
    def degradation_version(self) -> str:
        """Return the version of the model that says who slows down whom."""
        in_force = self.pair_trees or self.degradation
        return in_force.version if in_force else ""

    def _take(self, event: Event) -> None:
        message = event.payload
        match message:
            case ClusterDeclared():
                require_few_clusters(self._clusters, message.cluster)
                cluster = cluster_of(message)
                self._clusters[cluster.name], self._names[cluster.name] = cluster, cluster.names()
                self._clusters = dict(sorted(self._clusters.items()))
                down = {cluster.name} if any(each.down for each in cluster.partitions) else set()
                self._with_down = self._with_down - {cluster.name} | down
                self._undeclared.pop(cluster.name, None)
            case ClusterLost() | ClusterReturned():
                self._reach(message)
            case ClusterUndeclared():
                self._undeclare(event, message)
            case LimitsDeclared() | AccountStanding():
                self._restrict(event, message)
            case PowerCapDeclared():
                declared = power_caps.declared_cap(event, message)
                self._caps[power_caps.Covered(declared.cap.scope, declared.cap.name)] = declared
                self._caps = power_caps.in_order(self._caps)
            case SignatureUpdated():
                on_model = self._signatures.setdefault(message.node_model, {})
                on_model[message.app_id] = signatures_of(message)
            case _ if isinstance(message, Model):
                require_sha256(message)
                self._take_model(message)

    def _restrict(self, event: Event, message: LimitsDeclared | AccountStanding) -> None:
        """Set what users and accounts may have at once, or whether an account may have anything."""
        if isinstance(message, LimitsDeclared):
            subject, limit = limit_of(message)
            self._limits[subject], self._limited_by[subject] = limit, event.source
            if subject.kind is SubjectKind.PARTITION:
                self._limited_partitions.add(subject.name)
            elif subject.site:
                self._limited_sites.add(subject.site)
        elif message.standing == STANDING_REFUSED:
            self._refused[message.account] = message.allocated_su
        else:
            self._refused.pop(message.account, None)

    def _take_model(self, message: Model) -> None:
        match message:
            case CoefficientsPublished():
                self._coefficients[message.node_model] = coefficients_of(message)
            case PowerModelPublished():
                self._take_fallback(message)
            case PowerHistoryUpdated():
                self._take_power(message)
            case PowerTreesChosen():
                self.power_model.tables.take_trees(chosen_trees(message))
            case DegradationModelPublished():
                self.degradation = payloads.degradation(message)
            case PairTreesChosen():
                self.pair_trees = chosen_pair_trees(message)
            case NodePowerPublished():
                self.node_factors = payloads.node_factors(message, self._names)

    def _take_fallback(self, message: PowerModelPublished) -> None:
        self.power_model.fallback_version = message.version
        self.power_model.fallback_power_w = dict(message.fallback_power_w)

    def _take_power(self, message: PowerHistoryUpdated) -> None:
        """Fold the history of a kind of job; drop the publications of kinds that were evicted for
        it."""
        for kind in self.power_model.tables.fold(update_of(message)):
            self._newest.drop(_power(kind))

    def _node_factors(self) -> Mapping[str, Mapping[int, float]]:
        """Return the factors that were published last, of the nodes by their present names."""
        newest = self._newest.get(f"{NodePowerPublished.DESCRIPTOR.full_name}/")
        if newest is None or not isinstance(newest.payload, NodePowerPublished):
            return {}
        return payloads.node_factors(newest.payload, self._names)

    def _forget_oldest(
        self, node_model: str, rows: dict[str, tuple[Signature, ...]], in_use: Set[str]
    ) -> None:
        """Drop a tenth more signatures than must go, so that this is rare."""
        keys = {app: _signature(app, node_model) for app in rows.keys() - in_use}
        oldest = sorted(keys, key=lambda app: (self._newest[keys[app]].time_us, app))
        for app in oldest[: len(rows) - self._most_applications * 9 // 10]:
            del rows[app]
            self._newest.drop(keys[app])
        self.evictions += 1
        self.revision += 1

    def _undeclare(self, event: Event, message: ClusterUndeclared) -> None:
        """Undeclare a cluster unless it was declared since: both are known after a restart."""
        name = message.cluster
        declared = self._newest.get(f"{ClusterDeclared.DESCRIPTOR.full_name}/{name}")
        if declared and (declared.time_us, declared.id) < (event.time_us, event.id):
            since_s = message.undeclared_at_us / 1e6
            self._undeclared[name] = Closure(since_s, message.reason[:256], event.source[:256])
            self._lost.pop(name, None)
            self._forget_word(ClusterLost, name)

    def _reach(self, message: ClusterLost | ClusterReturned) -> None:
        if message.cluster not in self.declared:
            raise RejectedError("cluster", f"{message.cluster[:80]!r} is not declared")
        if isinstance(message, ClusterReturned):
            self._lost.pop(message.cluster, None)
            return
        since_s = message.lost_at_us / 1e6
        require_not_negative("lost_at_us", since_s)
        self._lost[message.cluster] = Closure(since_s, message.reason[:256])


def _subject(message: Message) -> str:
    """Return the subject of a message: of several messages on one subject the newest counts."""
    kind = message.DESCRIPTOR.full_name
    match message:
        case ClusterDeclared() | ClusterUndeclared():
            return f"{kind}/{message.cluster}"
        case ClusterLost() | ClusterReturned():
            return f"{ClusterLost.DESCRIPTOR.full_name}/{message.cluster}"
        case LimitsDeclared() | PowerCapDeclared() | AccountStanding():
            return f"{kind}/{_whose(message)}"
        case SignatureUpdated():
            return _signature(message.app_id, message.node_model)
        case CoefficientsPublished():
            return f"{kind}/{message.node_model}"
        case PowerHistoryUpdated():
            return _power(kind_of(message))
        case _:
            return f"{kind}/"


def _order(event: Event) -> tuple[int, str]:
    """Return what orders messages on one subject: the number that pricing or prediction gave, which
    grows whatever clocks show, else the time."""
    if isinstance(event.payload, AccountStanding | PowerHistoryUpdated):
        return event.payload.number, event.id
    return event.time_us, event.id


def _is_foreign(message: Message) -> bool:
    match message:
        case PowerHistoryUpdated():
            return message.origin != ORIGIN
        case PowerTreesChosen():
            return message.HasField("trees") and message.trees.origin != TREES_ORIGIN
        case PairTreesChosen():
            return message.HasField("trees") and message.trees.origin != PAIRS_ORIGIN
        case _:
            return False


def _whose(message: LimitsDeclared | PowerCapDeclared | AccountStanding) -> str:
    if isinstance(message, AccountStanding):
        return message.account
    if isinstance(message, LimitsDeclared):
        each = f".{message.each}" if message.each else ""
        # Its length says where the name begins, whatever both have in them.
        site = f"@{len(message.site)}:{message.site}" if message.site else ""
        return f"{message.subject}{each}{site}|{message.name}"
    return f"{message.scope}|{message.name}"


def _undeclaration(cluster: str) -> str:
    return f"{ClusterUndeclared.DESCRIPTOR.full_name}/{cluster}"


def _power(kind: KindOfJob) -> str:
    return f"{PowerHistoryUpdated.DESCRIPTOR.full_name}/{kind.name}"


def _signature(app_id: str, node_model: str) -> str:
    return f"{SignatureUpdated.DESCRIPTOR.full_name}/{app_id}|{node_model}"

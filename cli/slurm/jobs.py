"""Slurm's jobs and nodes, as its JSON has them, as facts: pure.

They have the ids that `ingest-jobcomp` gives them, so that either may publish them, or both.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from math import frexp
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from coplace.v1.control_pb2 import ClusterDeclared, NodeClass, Partition
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSubmitted

from coplace_client.bounds import (
    CORES_PER_NODE,
    LENGTHS,
    NODE_MEMORY_GIB,
    NODES,
    RESOURCES,
    WALLTIME_S,
)
from coplace_client.errors import RejectedError, UnusableError
from shared.domain.features import parse_features, require_feature
from shared.domain.folding import fold
from shared.domain.hostlist import expand
from shared.domain.printable import printable
from shared.domain.resources import MOST_NAME as MOST_RESOURCE_NAME
from shared.slurm.answers import number, text, time, words
from shared.slurm.facts import OUTCOMES, Site, envelopes, submission
from shared.slurm.grant_answer import GrantAnswer
from shared.slurm.message import Message
from shared.slurm.tres import Tres, most_important

_HOLDS_NODES: Final = frozenset(
    {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT"}
)
# The characters of the reason that a job is held for.
MOST_REASON: Final = 256
_MOST_SHOWN: Final = 200
_MOST_KINDS: Final = LENGTHS["node_classes"].most
_MOST_ACCOUNTS: Final = LENGTHS["allowed"].most
_MINUTE_S: Final = 60
_GRES: Final = "gres/"
# Why Slurm does not start a job on the nodes that it was released on, though they are free.
_NEVER_THERE: Final = frozenset(
    {
        *("BadConstraints", "PartitionNodeLimit", "PartitionTimeLimit", "PartitionDown"),
        *("PartitionInactive", "ReqNodeNotAvail", "NodeDown", "InvalidAccount", "InvalidQOS"),
        *("Constraints", "Reservation", "ReservationDeleted", "AccountNotAllowed"),
    }
)


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job as `squeue --json` shows it. `job_id` is Slurm's number."""

    fields: Mapping[str, Any]

    @property
    def job_id(self) -> int:
        """Return the number of the job in Slurm; 0 where it has none."""
        return number(self.fields.get("job_id")) or 0

    @property
    def submit_s(self) -> int:
        """Return when it was submitted, or requeued or resized the last time; 0: nobody knows."""
        return max(number(self.fields.get(name)) or 0 for name in ("submit_time", "resize_time"))

    @property
    def state(self) -> str:
        """Return its state; later versions give it as a list, with flags behind it."""
        state = self.fields.get("job_state")
        return str(state[0] if isinstance(state, list) and state else state)

    @property
    def is_pending(self) -> bool:
        """Return whether it waits, and has nothing of any node."""
        return self.state not in _HOLDS_NODES and self.state not in OUTCOMES

    @property
    def has_nodes(self) -> bool:
        """Return whether it runs, or is about to."""
        return self.state in _HOLDS_NODES

    @property
    def is_suspended(self) -> bool:
        """Return whether it is stopped on its nodes."""
        return self.state == "SUSPENDED"

    @property
    def word(self) -> GrantAnswer:
        """Return the word that `obey` wrote on it; that of grant 0 where it was written before it
        was requeued."""
        return GrantAnswer.parse(text(self.fields.get("admin_comment"))).about(self.submit_s)

    @property
    def wanted(self) -> str:
        """Return the nodes that its user asked for, as a host list."""
        said = GrantAnswer.parse(text(self.fields.get("admin_comment")))
        return said.wanted if said.grant else text(self.fields.get("required_nodes"))

    @property
    def released_on(self) -> str:
        """Return the nodes that it is to start on, as a host list."""
        return text(self.fields.get("required_nodes"))

    @property
    def never_starts_for(self) -> str:
        """Return why Slurm will not start it on those nodes; empty where it may."""
        reason = text(self.fields.get("state_reason"))
        return reason if reason in _NEVER_THERE else ""

    @property
    def unmapped(self) -> str:
        """Return what it asks for that Coplace can't follow, in words; empty where that is
        nothing."""
        if reservation := text(self.fields.get("reservation")) or text(
            self.fields.get("resv_name")
        ):
            return f"reservation {reservation} is not mapped to Coplace yet"
        if licences := text(self.fields.get("licenses")):
            return f"licences {licences} are not mapped to Coplace yet"
        try:
            if features := text(self.fields.get("features")):
                parse_features(features)
            for name in ("excluded_nodes", "required_nodes"):
                if hosts := text(self.fields.get(name)):
                    expand(hosts)
        except RejectedError as error:
            return f"Coplace can't follow it: {error}"
        return ""

    @property
    def is_placed(self) -> bool:
        """Return whether Coplace is to know of it: arrays and parts of heterogeneous jobs that wait
        are Slurm's own, since it starts them together."""
        array, leader = self.fields.get("array_task_string"), self.fields.get("het_job_id")
        return not (self.is_pending and (array or number(leader)))

    def ended_by_requeue(self, requeued_s: int) -> "SlurmJob":
        """Return the job as its run ended, of which Slurm shows nothing any more: it was requeued
        at that time."""
        ended = {"job_state": "REQUEUED", "end_time": requeued_s}
        return SlurmJob({**self.fields, **ended})

    def message(self) -> Message:
        """Return what jobcomp/kafka would send of it now."""
        of, given = self.fields, {name: number(self.fields.get(name)) for name in _NUMBERS}
        has_run = bool(of.get("nodes"))
        limit_min = given["time_limit"]
        nodes = (given["node_count"] or 1) if has_run or self.is_pending else 0
        began_s = max(given["start_time"] or 0, given["resize_time"] or 0)
        return Message(
            {
                "jobid": given["job_id"],
                "array_job_id": given["array_job_id"],
                "array_task_id": given["array_task_id"],
                "het_job_id": given["het_job_id"],
                "het_job_offset": given["het_job_offset"] if given["het_job_id"] else None,
                "cluster": of.get("cluster"),
                "username": of.get("user_name"),
                "user_id": given["user_id"],
                "account": of.get("account"),
                "job_name": of.get("name"),
                "comment": text(of.get("comment")),
                "admin_comment": text(of.get("admin_comment")),
                "partition": of.get("partition"),
                "qos": of.get("qos"),
                "@submit": time(self.submit_s),
                "@start": time(began_s) if has_run else None,
                "@end": time(given["end_time"]),
                "suspended": _suspended_s(given, began_s) if has_run else 0,
                "time_limit": limit_min * _MINUTE_S if limit_min else None,
                "nodes": of.get("nodes"),
                "total_nodes": nodes,
                "total_cpus": (given["cpus"] or nodes) if nodes else 0,
                "tres_req": of.get("tres_req_str"),
                "tres_alloc": of.get("tres_alloc_str"),
                "failed_node": of.get("failed_node"),
                "state": self.state if self.state in OUTCOMES else None,
                # Of a run that Slurm shows no more: what placement knows of it.
                "is_recalled": of.get("is_recalled"),
            }
        )


_NUMBERS: Final = (
    *("job_id", "array_job_id", "array_task_id", "het_job_id", "het_job_offset", "submit_time"),
    *("start_time", "end_time", "time_limit", "node_count", "cpus", "user_id", "resize_time"),
    *("suspend_time", "pre_sus_time"),
)


def _suspended_s(given: Mapping[str, int | None], began_s: int) -> int:
    """How long a run was suspended: Slurm keeps how long it had run when it was suspended the last
    time, and when it went on."""
    resumed_s, ended_s = given["suspend_time"] or 0, given["end_time"] or 0
    if not began_s <= resumed_s <= ended_s:
        return 0
    return max(0, resumed_s - began_s - (given["pre_sus_time"] or 0))


class RepairedFacts(NamedTuple):
    """The facts of a job, in order, and the fields of which something was left out."""

    told: Sequence[Envelope]
    repaired: Set[str]


def facts(job: SlurmJob, site: Site, architecture: str) -> list[Envelope]:
    """Return the facts of a job for Coplace, in order. Raises RejectedError, which names the
    field."""
    return list(facts_of(job, site, architecture, None, frozenset()).told)


def facts_of(
    job: SlurmJob, site: Site, architecture: str, latest_us: int | None, uncounted: Set[str]
) -> RepairedFacts:
    """Return the facts of a job: what is `uncounted` of the nodes of its cluster is not asked of
    them, and times behind `latest_us` are not believed. Raises as `facts`."""
    message, is_pending = job.message(), job.is_pending
    told = [] if is_pending else envelopes(message, site, latest_us)
    if not is_pending and not job.has_nodes:
        return RepairedFacts(told, message.repaired)  # it is over: other ways report the same
    told = [submission(message, site), *told[1:]]
    unmapped = job.unmapped
    if not unmapped:
        _say_where(told[0].job_submitted, job)
    elif is_pending:
        told[0].job_submitted.held_because = printable(unmapped, MOST_REASON)
    submitted = told[0].job_submitted
    submitted.architectures.append(printable(architecture))
    for name in uncounted & submitted.resources_per_unit.keys():
        del submitted.resources_per_unit[name]
        message.repaired.add("tres_req")
    return RepairedFacts(told, message.repaired)


def _say_where(submitted: JobSubmitted, job: SlurmJob) -> None:
    """Add where a job may run, as its user asked."""
    of = job.fields
    submitted.partitions.extend(name for name in text(of.get("partition")).split(",") if name)
    submitted.features = text(of.get("features"))
    submitted.nodes_wanted.extend([job.wanted] if job.wanted else [])
    excluded = text(of.get("excluded_nodes"))
    submitted.nodes_excluded.extend([excluded] if excluded else [])


class NodeHardware(NamedTuple):
    """What Slurm does not know of the nodes of its cluster; `tdp_w` is the thermal design power of
    one accelerator by its name in Gres, `processors_tdp_w` that of a node's processors together,
    and `nameplate_power_w` what a node draws at most, W; 0: nobody said."""

    node_model: str
    pstates_ghz: Sequence[float]
    idle_power_w: float
    peak_bandwidth_gbps: float
    tdp_w: Mapping[str, float] = MappingProxyType({})
    nameplate_power_w: float = 0.0
    processors_tdp_w: float = 0.0


class UnlikeNodesError(UnusableError):
    """Nodes of several models are in one cluster, which has one."""


def declared_cluster(
    nodes: Iterable[Mapping[str, Any]],
    cluster: str,
    site: str,
    architecture: str,
    of: NodeHardware,
    partitions: Iterable[Mapping[str, Any]] = (),
) -> ClusterDeclared:
    """Return the cluster that `sinfo --json` shows, in its order, with the partitions that its
    nodes are in, and what is shown of these.

    Raises UnlikeNodesError where nodes differ in their cores.
    """
    listed = [node for node in nodes if is_node(node) and _has_cores(node)]
    placed = _few_classes(list(zip(listed, _kinds_of_nodes(listed), strict=True)))
    shown = [node for node, _ in placed]
    cores = {number(node["cpus"]) or 0 for node in shown}
    if len(cores) != 1:
        told = ", ".join(map(str, sorted(cores))) or "no node"
        raise UnlikeNodesError(
            f"{cluster} has nodes of {told} cores: a cluster is of one node model"
        )
    found = ClusterDeclared(
        cluster=cluster,
        site=site,
        node_model=of.node_model,
        nodes=len(shown),
        cores_per_node=cores.pop(),
        pstates_ghz=of.pstates_ghz,
        idle_power_w=of.idle_power_w,
        peak_bandwidth_gbps=of.peak_bandwidth_gbps,
        nameplate_power_w=of.nameplate_power_w,
        processors_tdp_w=of.processors_tdp_w,
        architecture=architecture,
        node_names=fold(node["name"] for node in shown),
    )
    for kind, alike in groupby(kind for _, kind in placed):
        resources = dict(kind.resources)
        found.node_classes.append(
            NodeClass(
                nodes=len(list(alike)),
                memory_gib=kind.memory_gib,
                resources=resources,
                tdp_w={name: of.tdp_w[name] for name in resources if name in of.tdp_w},
                features=kind.features,
            )
        )
    found.partitions.extend(_partitions(shown, partitions))
    return found


class _NodeKind(NamedTuple):
    """What nodes of a class have in common."""

    memory_gib: float
    resources: tuple[tuple[str, int], ...]
    features: tuple[str, ...]


_PlacedNode = tuple[Mapping[str, Any], _NodeKind]


def _few_classes(nodes: list[_PlacedNode]) -> list[_PlacedNode]:
    """Return nodes in their order, or those that are alike together where there would be more
    classes than a cluster can have."""
    classes = sum(1 for _ in groupby(kind for _, kind in nodes))
    return nodes if classes <= _MOST_KINDS else sorted(nodes, key=lambda placed: placed[1])


def _kinds_of_nodes(nodes: Sequence[Mapping[str, Any]]) -> list[_NodeKind]:
    """Return the kinds of nodes: where there would be more than a cluster can have, without the
    features that no partition has on all of its nodes, then without any, then with less exact
    memory."""
    kinds = [_kind(node) for node in nodes]
    if len(set(kinds)) > _MOST_KINDS:
        shared = _shared_features(nodes, kinds)
        kept = [tuple(name for name in kind.features if name in shared) for kind in kinds]
        kinds = [
            kind._replace(features=features) for kind, features in zip(kinds, kept, strict=True)
        ]
    if len(set(kinds)) > _MOST_KINDS:
        kinds = [kind._replace(features=()) for kind in kinds]
    if len(set(kinds)) > _MOST_KINDS:
        kinds = [kind._replace(memory_gib=_power_of_two(kind.memory_gib)) for kind in kinds]
    return kinds


def _shared_features(
    nodes: Sequence[Mapping[str, Any]], kinds: Sequence[_NodeKind]
) -> frozenset[str]:
    """Return the features that all nodes of a partition have."""
    shared: dict[str, frozenset[str]] = {}
    for node, kind in zip(nodes, kinds, strict=True):
        features = frozenset(kind.features)
        for name in words(node.get("partitions")):
            shared[name] = shared.get(name, features) & features
    return frozenset().union(*shared.values())


def _power_of_two(memory_gib: float) -> float:
    """Return the power of two that is no more."""
    less_gib = 2.0 ** (frexp(memory_gib)[1] - 1) if memory_gib else 0.0
    return less_gib if NODE_MEMORY_GIB.has(less_gib) else 0.0


def undeclared(
    nodes: Iterable[Mapping[str, Any]],
    partitions: Iterable[Mapping[str, Any]],
    found: ClusterDeclared,
) -> Iterator[str]:
    """Yield what a declaration leaves out since there is too much of it, in words."""
    features = {name for node in nodes if is_node(node) for name in _features(node)}
    features.difference_update(*(each.features for each in found.node_classes))
    if features:
        names = printable(", ".join(sorted(features)), _MOST_SHOWN)
        yield f"features of too many kinds of nodes, jobs that ask for them wait: {names}"
    open_to_all = {each.name for each in found.partitions if not each.accounts}
    for each in partitions:
        name = text(each.get("name"))
        if name in open_to_all and _accounts(each):
            yield f"accounts of partition {printable(name)}: more than {_MOST_ACCOUNTS}"


def _partitions(
    nodes: Sequence[Mapping[str, Any]], shown: Iterable[Mapping[str, Any]]
) -> Iterator[Partition]:
    """Yield the partitions of nodes, by name, as far as there may be."""
    by_name: dict[str, list[str]] = {}
    for node in nodes:
        for name in words(node.get("partitions")):
            by_name.setdefault(name, []).append(node["name"])
    known = {text(each.get("name")): each for each in shown}
    for name in sorted(by_name)[: LENGTHS["partitions"].most]:
        yield _partition(name, by_name[name], known.get(name, {}))


def _partition(name: str, nodes: Sequence[str], shown: Mapping[str, Any]) -> Partition:
    """Return a partition with the limits that Slurm shows of it."""
    most, state = _object(shown, "maximums"), _object(shown, "partition").get("state")
    walltime_s = (number(most.get("time")) or 0) * _MINUTE_S
    most_nodes, accounts = number(most.get("nodes")) or 0, _accounts(shown)
    return Partition(
        name=name,
        nodes=fold(nodes),
        most_walltime_s=walltime_s if WALLTIME_S.has(walltime_s) else 0.0,
        most_nodes=most_nodes if NODES.has(most_nodes) else 0,
        exclusive=number(most.get("shares")) == 0,
        down=not {"DOWN", "INACTIVE"}.isdisjoint(words(state)),
        accounts=accounts if len(accounts) <= _MOST_ACCOUNTS else (),
    )


def _accounts(shown: Mapping[str, Any]) -> list[str]:
    """Return the accounts that a partition is for; none: for all."""
    allowed = words(_object(shown, "accounts").get("allowed"))
    return [account for account in allowed if account.upper() != "ALL"]


def _object(shown: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = shown.get(name)
    return found if isinstance(found, Mapping) else {}


def uncounted_resources(nodes: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return what nodes have that is not declared of them, such as disks that are counted in
    bytes: a job that was said to need it would wait for ever."""
    names = {name for node in nodes if is_node(node) for name in _kinds_of(text(node.get("tres")))}
    shown = [node for node in nodes if is_node(node)]
    counted = {name for node in shown for name in _counted(text(node.get("tres")))}
    return frozenset(names - counted)


def is_node(node: Any) -> bool:
    """Return whether this is a node whose name can be published."""
    name = node.get("name") if isinstance(node, Mapping) else None
    try:
        return isinstance(name, str) and expand(name) == [name]
    except RejectedError:
        return False


def _has_cores(node: Mapping[str, Any]) -> bool:
    return CORES_PER_NODE.has(number(node.get("cpus")) or 0)


def _counted(tres: str) -> dict[str, int]:
    """What of a node's resources can be counted."""
    gres = Tres.parse(tres).gres
    return most_important(
        {
            name: count
            for name, count in gres.items()
            if count <= RESOURCES.most and len(name) <= MOST_RESOURCE_NAME
        }
    )


def _kinds_of(tres: str) -> Iterator[str]:
    """The names of all generic resources in a list, whatever their counts are."""
    for entry in tres.split(","):
        kind, is_there, _ = entry.partition("=")
        if is_there and kind.startswith(_GRES):
            yield kind.removeprefix(_GRES)


def _gib(memory_mib: int) -> float:
    """0, unknown, for the 1 MiB that Slurm has where nobody said how much there is, and for what no
    node has."""
    memory_gib = memory_mib / 1024
    return memory_gib if memory_mib > 1 and NODE_MEMORY_GIB.has(memory_gib) else 0.0


def _kind(node: Mapping[str, Any]) -> _NodeKind:
    resources = tuple(sorted(_counted(text(node.get("tres"))).items()))
    features = tuple(_features(node)[: LENGTHS["features"].most])
    return _NodeKind(_gib(number(node.get("real_memory")) or 0), resources, features)


def _features(node: Mapping[str, Any]) -> list[str]:
    return [name for name in words(node.get("features")) if _is_feature(name)]


def _is_feature(name: str) -> bool:
    """Return whether a job can ask for a feature."""
    try:
        require_feature("features", name)
    except RejectedError:
        return False
    return True

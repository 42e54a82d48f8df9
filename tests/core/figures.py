"""Clusters, applications and what follows of them, in numbers that are never rounded: all times and
powers are powers of two or sums of few."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from random import Random
from typing import Any, Final, NamedTuple

from coplace.v1.control_pb2 import ClusterDeclared, NodeClass, Partition
from coplace.v1.energy_pb2 import CoefficientsPublished, SignatureAt, SignatureUpdated
from coplace.v1.jobs_pb2 import Part as PartMessage

from shared.catalogue.event import Event
from tests.core import systems
from tests.core.plain import Budget, Counts, Members, Needs, Place, Shape, Window
from tests.unit.shared.placement import region

CLUSTERS: Final = ("a", "b", "c")
SITES: Final = {"a": "s", "b": "s", "c": "t"}
SCOPES: Final = ("cluster", "site", "region")
PSTATES: Final = (1.0, 2.0, 4.0)
POWER_SHARE: Final = (0.625, 0.75, 1.0)
NOMINAL_S: Final = {"a": (64.0, 64.0, 64.0, 64.0), "b": (128.0, 64.0, 128.0, 32.0)}
IDLE_W, PEAK_GBPS, WEIGHT, MAX_SLOWDOWN = 64.0, 256.0, 8.0, 1.25
# What a node draws at most, more than any application: caps need it, and all that runs is known.
MOST_NODE_W: Final = 512.0
GBPS: Final = (0.0, 64.0, 128.0, 256.0)
UNKNOWN_MIB: Final = 2**40
FEATURES: Final = ("x", "y", "z")
# By the number of what a job asks for: as it is written, and what it means.
EXPRESSIONS: Final[Sequence[tuple[str, Callable[[Set[str]], bool]]]] = (
    ("", lambda _: True),
    ("x", lambda has: "x" in has),
    ("x&y", lambda has: has >= {"x", "y"}),
    ("x|z", lambda has: bool(has & {"x", "z"})),
    ("(x|y)&z", lambda has: "z" in has and bool(has & {"x", "y"})),
)


def nominal_s(cluster: str, app: int) -> float:
    """One run of an application at the nominal P-state."""
    return NOMINAL_S.get(cluster, NOMINAL_S["a"])[app]


def node_w(cluster: str, app: int) -> float:
    """What it draws on a node used whole, at the nominal P-state."""
    return 192.0 + 64.0 * app + (32.0 if cluster == "b" else 0.0)


class Mode(NamedTuple):
    """How a job can run: its P-state, the limit of a whole run there, and what it draws beyond
    idle."""

    ghz: float
    limit_s: float
    draw_mw: int


class Part(NamedTuple):
    """A partition: its nodes, and what of a job it takes; 0 is any number, and user -1 is all."""

    nodes: frozenset[int]
    alone: bool
    is_default: bool
    most_nodes: int
    most_s: int
    user: int


class Job(NamedTuple):
    """What was submitted, and the cluster that its walltime relates to."""

    asked: systems.Submit
    reference: str


@dataclass
class Known:
    """What was declared and submitted: what follows from that alone, whatever is decided."""

    clusters: dict[str, systems.Declare] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    # By cluster and number.
    windows: dict[tuple[str, int], Window] = field(default_factory=dict)
    # By place of the scope in SCOPES, and name: steps as (from_s, mW or None).
    caps: dict[tuple[int, str], list[tuple[float, int | None]]] = field(default_factory=dict)
    # By place of the scope, name of the place, and name of the licence.
    licences: dict[tuple[int, str, str], int] = field(default_factory=dict)

    def shape(self, job: systems.Submit, cluster: str) -> Shape:
        """A unit of a job on a cluster, and where it may be."""
        if job.parts:
            return self._gang(job, cluster)
        return self._unit(job, cluster)._replace(places=self._places(job, cluster))

    def _gang(self, job: systems.Submit, cluster: str) -> Shape:
        """A node of a gang, and what each part needs of its own."""
        declared, found = self.clusters[cluster], list[tuple[int, Shape]]()
        whole = Shape("", (("cores", declared.cores),), True, 1)
        everywhere = (Place(frozenset(range(declared.nodes)), frozenset(), False),)
        for part in job.parts:
            alone = replace(job, parts=(), units=part.nodes, where=_where_of(job, part))
            count = min(part.units, part.per_node)
            needs: Needs = (
                ("cores", max(declared.cores, part.each * count)),
                ("memory", part.memory_gib * count * 1024),
                ("gpu", part.gpus * count),
            )
            some = tuple((name, need) for name, need in needs if need)
            places = self._places(alone, cluster, is_whole=len(some) == 1)
            found.append((part.nodes, Shape("", some, True, 1, places)))
        if all(one._replace(places=None) == whole for _, one in found) and all(
            one.places in (None, everywhere) for _, one in found
        ):
            return whole
        return whole._replace(parts=tuple(found))

    def _places(
        self, job: systems.Submit, cluster: str, *, is_whole: bool = True
    ) -> tuple[Place, ...] | None:
        """One for each partition that the job asks for and that takes it."""
        declared, asked = self.clusters[cluster], job.where or systems.Where()
        parts = dict(enumerate(parts_of(declared)))
        defaults = [number for number, part in parts.items() if part.is_default]
        numbers = asked.partitions or defaults
        if not (job.where or defaults):
            return None
        everywhere = frozenset(range(declared.nodes))
        offered = [Part(everywhere, False, False, 0, 0, -1)]
        if numbers:
            offered = [parts[number] for number in numbers if number in parts]
        held = -(-job.units * job.each // declared.cores) if job.cores else job.units
        holds, places = EXPRESSIONS[asked.feature][1], []
        wanted = frozenset(asked.wanted)
        for part in offered:
            in_limits = (not part.most_nodes or held <= part.most_nodes) and (
                not part.most_s or job.walltime_s <= part.most_s
            )
            nodes = {n for n in part.nodes - set(asked.excluded) if holds(features(declared, n))}
            is_there = wanted <= nodes and (not wanted or cluster == CLUSTERS[0])
            if in_limits and part.user in (-1, job.user) and nodes and is_there:
                place = Place(frozenset(nodes), wanted, part.alone)
                places += [place] if place not in places else []
        is_whole &= not (job.cores or job.shares)
        if is_whole and any(place.nodes == everywhere and not place.wanted for place in places):
            return (Place(everywhere, frozenset(), False),)  # its other places give it no more
        return tuple(places)

    def _unit(self, job: systems.Submit, cluster: str) -> Shape:
        declared, app = self.clusters[cluster], region.APPS[job.app]
        needs: dict[str, int | Fraction]
        least_mib = 32 * 1024 if gpu_nodes(declared) else 0
        if job.cores:
            needs = {"cores": job.each, "memory": job.memory_gib * 1024, "gpu": job.gpus}
            return Shape(app, tuple(needs.items()), not job.shares, job.most)
        if job.shares:
            needs = {"cores": declared.cores // 2, "memory": least_mib // 2}
            return Shape(app, tuple(needs.items()), False, 1)
        return Shape(app, (("cores", declared.cores),), True, 1)

    def nodes(self, cluster: str) -> list[Mapping[str, int]]:
        """What each node of a cluster has."""
        declared = self.clusters[cluster]
        with_gpus = gpu_nodes(declared)
        return [
            {
                "cores": declared.cores,
                "memory": (64 if node < with_gpus else 32) * 1024 if with_gpus else UNKNOWN_MIB,
                "gpu": 2 if node < with_gpus else 0,
            }
            for node in range(declared.nodes)
        ]

    def mode(self, job_id: str, cluster: str, ghz: float, units: int) -> Mode:
        """How so many units of a job run at a P-state: its walltime goes there as far as that on
        the reference cluster, its draw goes with the cores that it holds."""
        job, reference = self.jobs[job_id]
        allowance = MAX_SLOWDOWN if job.shares else 1.0
        time_s = nominal_s(cluster, job.app) * PSTATES[-1] / ghz
        limit_s = job.walltime_s * allowance * time_s / nominal_s(reference, job.app)
        watts = node_w(cluster, job.app) * POWER_SHARE[PSTATES.index(ghz)] - IDLE_W
        held = self.shape(job, cluster).cores * units
        return Mode(ghz, limit_s, round(watts * 1000) * held // self.clusters[cluster].cores)

    def accepts(self, cluster: str, members: Members) -> bool:
        """Nobody is slowed down more than is allowed: 1 + w x own share x share of the others."""
        cores = self.clusters[cluster].cores
        shares = [GBPS[region.APPS.index(app)] * n / cores / PEAK_GBPS for app, n in members]
        total = sum(shares)
        return all(1 + WEIGHT * own * (total - own) <= MAX_SLOWDOWN for own in shares)

    def windows_of(self, cluster: str) -> list[Window]:
        """What is reserved of a cluster."""
        return [window for (name, _), window in self.windows.items() if name == cluster]

    def may_wait(self, job_id: str, cluster: str, limit_s: float, now_s: float) -> bool:
        """Whether a job may wait on a cluster for the reservation and the licences that it asks
        for."""
        asked = self.jobs[job_id].asked
        for name, count in licences_of(asked):
            there = [b for b in self.licence_budgets() if b.licence == name]
            there = [b for b in there if cluster in b.clusters]
            if not there or min(b.cap_mw(now_s) for b in there) < count:
                return False
        if asked.reservation < 0:
            return True
        own = self.windows.get((cluster, asked.reservation))
        if own is None or asked.user != own.user:
            return False
        start_s = max(now_s, own.from_s)
        return own.holds(start_s, start_s + limit_s)

    def covered(self, scope: int, name: str) -> list[str]:
        """The clusters that a cap is of."""
        return [c for c in self.clusters if name in ((c,), (SITES[c],), ("",))[scope]]

    def idle_mw(self, clusters: Iterable[str]) -> int:
        """What all their nodes draw that nobody uses."""
        return sum(round(IDLE_W * 1000) * self.clusters[c].nodes for c in clusters)

    def licence_budgets(self) -> list[Budget]:
        """By name, of clusters before those of sites and of the region."""
        return [
            Budget(
                f"{name} of {SCOPES[scope]} {place}",
                frozenset(self.covered(scope, place)),
                [(-inf, count)],
                0,
                licence=name,
            )
            for (scope, place, name), count in sorted(self.licences.items(), key=_by_licence)
        ]

    def budgets(self, *, counts_idle: bool) -> list[Budget]:
        """Those of clusters first, then of sites, then of the region, by name."""
        found = []
        for (scope, name), steps in sorted(self.caps.items()):
            covered = self.covered(scope, name)
            idle_mw = self.idle_mw(covered) if counts_idle else 0
            found.append(Budget(f"{SCOPES[scope]} {name}", frozenset(covered), steps, idle_mw))
        return found


def _where_of(job: systems.Submit, part: systems.PartAsked) -> systems.Where | None:
    """Where a part may be: what it does not say its job says."""
    own, of_job = part.where or systems.Where(), job.where or systems.Where()
    found = systems.Where(
        own.partitions or of_job.partitions,
        own.feature or of_job.feature,
        own.excluded or of_job.excluded,
        own.wanted,
    )
    return None if found == systems.Where() else found


def _by_licence(item: tuple[tuple[int, str, str], int]) -> tuple[str, int, str]:
    (scope, place, name), _ = item
    return name, scope, place


def licences_of(job: systems.Submit) -> Counts:
    """Those that a job asks for."""
    return tuple((f"licence-{number}", count) for number, count in job.licences)


def parts_of(declared: systems.Declare) -> list[Part]:
    """The partitions of a cluster: they overlap."""
    rng, found = Random(f"parts {declared.places}"), list[Part]()
    for _ in range(systems.PARTITIONS if declared.places else 0):
        nodes = [node for node in range(6) if rng.random() < 0.6]
        drawn = (
            rng.random() < 0.3,
            rng.random() < 0.15,
            rng.choice([0, 0, 2]),
            rng.choice([0, 0, 0, 100]),
            rng.choice([-1, -1, -1, 0]),
        )
        there = frozenset(node for node in nodes if node < declared.nodes)
        found.append(Part(there or frozenset({0}), *drawn))
    return found


def features(declared: systems.Declare, node: int) -> Set[str]:
    """Those of one node of a cluster."""
    rng = Random(f"features {declared.places} {node}")
    return {name for name in FEATURES if declared.places and rng.random() < 0.6}


def _classes(declared: systems.Declare) -> list[NodeClass]:
    """The nodes of a cluster, those alike that follow one another together where it has no
    places."""
    with_gpus = gpu_nodes(declared)
    if declared.places:
        found = []
        for node in range(declared.nodes):
            has_gpus = node < with_gpus
            memory_gib = (64 if has_gpus else 32) if with_gpus else 0
            resources = {"gpu": 2} if has_gpus else {}
            on_it = sorted(features(declared, node))
            found.append(NodeClass(nodes=1, memory_gib=memory_gib, resources=resources))
            found[-1].features.extend(on_it)
        return found
    if not with_gpus:
        return []
    return [
        NodeClass(nodes=with_gpus, memory_gib=64, resources={"gpu": 2}),
        NodeClass(nodes=declared.nodes - with_gpus, memory_gib=32),
    ]


def _partitions(name: str, declared: systems.Declare) -> Iterator[Partition]:
    for number, part in enumerate(parts_of(declared)):
        yield Partition(
            name=f"part-{number}",
            nodes=[f"{name}-{node:04d}" for node in sorted(part.nodes)],
            exclusive=part.alone,
            default=part.is_default,
            most_nodes=part.most_nodes,
            most_walltime_s=part.most_s,
            users=[] if part.user < 0 else [f"user-{part.user}"],
        )


def gpu_nodes(declared: systems.Declare) -> int:
    """How many nodes of a cluster have GPUs: the last never has."""
    return min(declared.gpu_nodes, declared.nodes - 1)


def events_of(name: str, declared: systems.Declare, time_us: int) -> Iterator[Event]:
    """A cluster, and all that is learned of what runs there."""
    payload = ClusterDeclared(
        cluster=name,
        site=SITES[name],
        node_model=f"model-{name}",
        nodes=declared.nodes,
        cores_per_node=declared.cores,
        pstates_ghz=PSTATES,
        idle_power_w=IDLE_W,
        peak_bandwidth_gbps=PEAK_GBPS,
        nameplate_power_w=MOST_NODE_W,
        node_classes=_classes(declared),
        partitions=_partitions(name, declared),
    )
    yield region.event(f"declared/{name}", payload, time_us)
    yield _coefficients(name)
    for app in range(len(GBPS)):
        yield _signature(name, app)


def submission(job_id: str, job: Job, time_us: int) -> Event:
    """A job as it is submitted."""
    step = job.asked
    asked: dict[str, Any] = {
        "nodes": step.units,
        "walltime_s": float(step.walltime_s),
        "app_id": region.APPS[step.app],
        "reference_cluster": job.reference,
        "shareable": step.shares,
        "priority": step.priority,
        "user": f"user-{step.user}",
    }
    if step.cores:
        asked |= {"cores_per_unit": step.cores, "units_per_node": step.most}
        asked |= {"millicores_per_unit": step.millicores}
        asked |= {"memory_gib_per_unit": float(step.memory_gib)}
        asked |= {"resources_per_unit": {"gpu": step.gpus} if step.gpus else {}}
    if step.licences:
        asked |= {"licences": dict(licences_of(step))}
    if step.reservation >= 0:
        asked |= {"reservation": f"reservation-{step.reservation}"}
    if (where := step.where) is not None:
        asked |= {
            "partitions": [f"part-{number}" for number in where.partitions],
            "features": EXPRESSIONS[where.feature][0],
            "nodes_wanted": [f"{CLUSTERS[0]}-{node:04d}" for node in where.wanted],
            "nodes_excluded": [f"{c}-{n:04d}" for c in CLUSTERS for n in where.excluded],
        }
    if step.parts:
        asked |= {"parts": [_part(part) for part in step.parts]}
    return region.submitted(job_id, time_us, **asked)


def _part(part: systems.PartAsked) -> PartMessage:
    where = part.where or systems.Where()
    return PartMessage(
        units=part.units,
        units_per_node=part.per_node,
        cores_per_unit=part.cores,
        millicores_per_unit=part.millicores,
        memory_gib_per_unit=part.memory_gib,
        resources_per_unit={"gpu": part.gpus} if part.gpus else {},
        partitions=[f"part-{number}" for number in where.partitions],
        features=EXPRESSIONS[where.feature][0],
        nodes_wanted=[f"{CLUSTERS[0]}-{node:04d}" for node in where.wanted],
        nodes_excluded=[f"{c}-{n:04d}" for c in CLUSTERS for n in where.excluded],
    )


def _coefficients(cluster: str) -> Event:
    """Times go with the clock alone, powers as POWER_SHARE says."""
    count = len(PSTATES)
    power = [to / of for of in POWER_SHARE for to in POWER_SHARE]
    payload = CoefficientsPublished(
        node_model=f"model-{cluster}",
        version=f"coefficients-{cluster}@0",
        tpi_scale="test",
        pstates_ghz=PSTATES,
        a=power,
        b=[0.0] * count**2,
        c=[0.0] * count**2,
        d=[1.0] * count**2,
        e=[0.0] * count**2,
        f=[0.0] * count**2,
        available=[True] * count**2,
    )
    return region.event(f"coefficients/{cluster}", region.sealed(payload))


def _signature(cluster: str, app: int) -> Event:
    at = SignatureAt(
        freq_ghz=PSTATES[-1],
        time_s=nominal_s(cluster, app),
        power_w=node_w(cluster, app),
        cpi=0.5,
        tpi=0.0,
        mem_gbps=GBPS[app],
        count=1,
    )
    payload = SignatureUpdated(
        app_id=region.APPS[app], node_model=f"model-{cluster}", tpi_scale="test", at=[at]
    )
    return region.event(f"signature/{app}/{cluster}", payload)

"""The clusters that are simulated, as a file or by the names of the built-in ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Annotated, Final, Self

import numpy as np
from pydantic import ConfigDict, Field, ValidationError, model_validator

from coplace_client.errors import UnusableError
from lab.simulation.policy import SimulatedPolicy
from lab.workloads.clusters import clusters
from shared.domain import eamc_source
from shared.domain.energy_tariff import Tariff
from shared.process.plain_numbers import PlainModel
from shared.process.user_files import read_yaml
from shared.replay.played import Fleet, SharedCap
from shared.scheduling.pool import Discipline, Over, Pool
from shared.scheduling.power import Cap, Scope, Step, milliwatts
from shared.scheduling.windows import Maintained
from shared.scheduling.workload import Ints

_MODULE_OF: Final = {model: name for name, model in eamc_source.NODE_MODEL_OF_MODULE.items()}


def require_above_idle(subject: str, cap_w: float, base_mw: int) -> None:
    """Raise UnusableError for a cap at or below what idles, under which nothing could start."""
    if cap_w == inf or (cap_w > 0 and milliwatts(cap_w) > base_mw):
        return
    raise UnusableError(
        f"the cap of {subject}, {cap_w:,g} W, must be above the idle power that counts, "
        f"{base_mw / 1000:,g} W: raise it, or say --no-cap-counts-idle"
    )


class SizeUnit(StrEnum):
    """What a cluster gives out, and what a workload's sizes count."""

    NODE = "node"
    CORE = "core"


class Maintenance(PlainModel):
    """So many nodes of a cluster are there for nobody, from a time of the workload until
    another."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    from_s: float = Field(ge=0, allow_inf_nan=False)
    until_s: float = Field(gt=0, allow_inf_nan=False)
    nodes: int = Field(gt=0)

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.until_s <= self.from_s:
            raise ValueError(f"until_s, {self.until_s}, must be behind from_s, {self.from_s}")
        return self


class SimulatedCluster(PlainModel):
    """One cluster; `module` is its node model as the files of coefficients and signatures call it.

    Raises pydantic.ValidationError, which names the field.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    nodes: int = Field(gt=0)
    module: str = Field(min_length=1)
    cores_per_node: int = Field(1, gt=0)
    idle_power_w: float = Field(0.0, ge=0, allow_inf_nan=False, description="of a node")
    unit: SizeUnit = SizeUnit.NODE
    cap_w: float = Field(inf, gt=0, description="what it draws at most")
    site: str = Field("", description="where it is; caps may be of all that is there")
    maintenance: list[Maintenance] = Field(
        default_factory=list, description="when some of its nodes are there for nobody"
    )

    @model_validator(mode="after")
    def _maintains_what_it_has(self) -> Self:
        for each in self.maintenance:
            if each.nodes > self.nodes:
                raise ValueError(f"maintenance of {each.nodes} nodes, {self.name} has {self.nodes}")
        return self

    @property
    def units_per_node(self) -> int:
        """Return the units of a node: 1 where whole nodes are given out."""
        return self.cores_per_node if self.unit is SizeUnit.CORE else 1

    @property
    def units(self) -> int:
        """Return all units that there are to give out."""
        return self.size_in(self.unit)

    @property
    def idle_unit_w(self) -> float:
        """Return what an idle unit draws."""
        return self.idle_power_w / self.units_per_node

    def size_in(self, counts: SizeUnit) -> int:
        """Return all its nodes, or all their cores."""
        return self.nodes * (self.cores_per_node if counts is SizeUnit.CORE else 1)

    def units_for(self, sizes: Ints, counts: SizeUnit) -> Ints:
        """Return the units of jobs whose sizes (jobs,) count nodes or cores: whole nodes where no
        less is given out."""
        if counts is SizeUnit.NODE:
            return sizes * self.units_per_node
        return sizes if self.unit is SizeUnit.CORE else -(-sizes // self.cores_per_node)


@dataclass(frozen=True, slots=True)
class System:
    """Clusters in the order in which jobs are offered to them; the first is the primary one, that
    times relate to. `tariff_of` are tariffs by cluster, of all or of none; `cap_counts_idle` is
    False where caps are of what jobs draw beyond idle power alone; `shared_cap_w` are caps of
    sites by name and of the `region`. Raises UnusableError for no cluster, for two of one name, for
    tariffs of others, for a site called region, a cap of no site, and one below which all idles."""

    clusters: tuple[SimulatedCluster, ...]
    tariff_of: Mapping[str, Tariff] = field(default_factory=dict)
    cap_counts_idle: bool = True
    shared_cap_w: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [cluster.name for cluster in self.clusters]
        if not names or len(set(names)) < len(names):
            raise UnusableError(f"a system needs clusters of different names, got {names}")
        if self.tariff_of and set(self.tariff_of) != set(names):
            raise UnusableError(f"tariffs are for {sorted(self.tariff_of)}, clusters are {names}")
        pools = self.pools
        for name, pool in zip(names, pools, strict=True):
            require_above_idle(f"cluster {name}", pool.cap_w, pool.base_mw)
        self._require_possible(pools)

    def _require_possible(self, pools: Sequence[Pool]) -> None:
        sites = dict.fromkeys(cluster.site for cluster in self.clusters if cluster.site)
        if Scope.REGION in sites:
            raise UnusableError("a site is called region, which is all clusters: rename the site")
        known = [*sites, Scope.REGION]
        for name, cap_w in self.shared_cap_w.items():
            if name not in known:
                raise UnusableError(
                    f"caps: {name[:80]!r} is not a site: known are {', '.join(known)}; "
                    "that of a cluster is its cap_w"
                )
            base_mw = sum(pools[number].base_mw for number in self._under(name))
            require_above_idle(_scope(name, ()).subject, cap_w, base_mw)

    @property
    def tariffs(self) -> tuple[Tariff, ...]:
        """Return one tariff of each cluster; 1 per kWh where none was given."""
        return tuple(self.tariff_of.get(cluster.name, Tariff()) for cluster in self.clusters)

    @property
    def pools(self) -> list[Pool]:
        """Return what the timeline plays on, one of each cluster."""
        return [
            Pool(
                each.units,
                each.cap_w,
                each.idle_unit_w,
                self.cap_counts_idle,
                maintained=tuple(
                    Maintained(m.from_s, m.until_s, m.nodes * each.units_per_node)
                    for m in each.maintenance
                ),
            )
            for each in self.clusters
        ]

    @property
    def over(self) -> list[Over]:
        """Return its caps over several clusters, as the timeline takes them."""
        return [
            (_scope(name, ((-inf, milliwatts(cap_w)),)), [*self._under(name)])
            for name, cap_w in self.shared_cap_w.items()
            if cap_w < inf
        ]

    @property
    def is_capped(self) -> bool:
        """Return whether a cap is of any of its clusters, or over several."""
        return bool(self.over) or any(cluster.cap_w < inf for cluster in self.clusters)

    @property
    def left_mw(self) -> list[int]:
        """Return what a job alone may draw on each cluster under all caps, beyond what counts
        idle."""
        pools = self.pools
        left_mw = [pool.left_mw for pool in pools]
        for cap, numbers in self.over:
            shared_mw = cap.limit_mw(0.0) - sum(pools[number].base_mw for number in numbers)
            for number in numbers:
                left_mw[number] = min(left_mw[number], shared_mw)
        return left_mw

    @property
    def fleet(self) -> Fleet:
        """Return what idles, and how much of it there is."""
        return Fleet(
            names=tuple(cluster.name for cluster in self.clusters),
            units=np.array([cluster.units for cluster in self.clusters]),
            idle_w=np.array([cluster.idle_unit_w for cluster in self.clusters]),
            cap_w=np.array([pool.most_w for pool in self.pools]),
            tariffs=self.tariffs if self.tariff_of else None,
            shared_caps=tuple(self._shared_caps()),
            caps_count_idle=self.cap_counts_idle,
        )

    def require_kept_by(
        self, policies: Iterable[SimulatedPolicy], discipline: Discipline | None = None
    ) -> None:
        """Raise UnusableError for a policy that knows no caps over several clusters, under one, by
        itself or under a discipline that was chosen beside it; so for maintenance."""
        self._require_maintained_by(policies, discipline)
        over, others = self.over, [each for each in policies if not each.keeps_shared_caps]
        if over and discipline is Discipline.SLURM:
            raise UnusableError(
                f"slurm keeps caps of single clusters alone, and {over[0][0].subject} has one: "
                "take easy, or cap_w of each cluster in its place"
            )
        if over and others:
            raise UnusableError(
                f"policy {others[0]} keeps caps of single clusters alone, and {over[0][0].subject} "
                "has one: take easy or fcfs, or cap_w of each cluster in its place"
            )

    def _require_maintained_by(
        self, policies: Iterable[SimulatedPolicy], discipline: Discipline | None
    ) -> None:
        """Raise UnusableError for a policy or a discipline that knows no maintenance, where there
        is some."""
        found = [each.name for each in self.clusters if each.maintenance]
        unaware = [each for each in policies if not each.knows_maintenance]
        if discipline is Discipline.SLURM:
            unaware.append(SimulatedPolicy.SLURM)
        if found and unaware:
            raise UnusableError(
                f"{unaware[0]} knows no maintenance, and {found[0]} has some: take easy, fcfs or "
                "conservative, or leave it out"
            )

    def _under(self, name: str) -> Iterator[int]:
        """The numbers of the clusters of a site, or of the region."""
        for number, cluster in enumerate(self.clusters):
            if name in (cluster.site, Scope.REGION):
                yield number

    def _shared_caps(self) -> Iterator[SharedCap]:
        """Those over several clusters, with idle power whether it counts or not."""
        pools = self.pools
        for cap, numbers in self.over:
            idle_w = sum(pools[number].units * pools[number].idle_w for number in numbers)
            cap_w = cap.limit_mw(0.0) / 1000 + (0.0 if self.cap_counts_idle else idle_w)
            yield SharedCap(cap.subject, tuple(numbers), cap_w)


def _scope(name: str, steps: tuple[Step, ...]) -> Cap:
    """A cap of a site, or of the region."""
    is_region = name == Scope.REGION
    return Cap(Scope.REGION, "", steps) if is_region else Cap(Scope.SITE, name, steps)


class _SystemFile(PlainModel):
    model_config = ConfigDict(extra="forbid")

    clusters: list[SimulatedCluster]
    caps: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )


def read_system(path: Path, *, cap_counts_idle: bool = True) -> System:
    """Read a system from YAML: `clusters`, a list with the fields of SimulatedCluster, and `caps`,
    watts by site or of the `region`.

    Raises OSError when the file cannot be read, UnusableError when it is not of this form.
    """
    try:
        content = _SystemFile.model_validate(read_yaml(path))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in error.errors()
        )
        raise UnusableError(f"{path} is not a system: {problems}") from error
    clusters, caps = tuple(content.clusters), content.caps
    return System(clusters, cap_counts_idle=cap_counts_idle, shared_cap_w=caps)


def built_in_system(
    names: list[str],
    cap_w: float = inf,
    *,
    cap_counts_idle: bool = True,
    region_cap_w: float = inf,
) -> System:
    """Return clusters of the EAMC paper by name, of 512 nodes each, each under a cap of its own,
    and all under that of the region.

    Raises UnusableError for a name that none of them has.
    """
    known = {cluster.name: cluster for cluster in clusters()}
    if unknown := [name for name in names if name not in known]:
        raise UnusableError(f"{', '.join(unknown)}: the built-in clusters are {', '.join(known)}")
    chosen = [known[name] for name in names]
    return System(
        tuple(
            SimulatedCluster(
                name=cluster.name,
                nodes=cluster.nodes,
                module=_MODULE_OF[cluster.node_model],
                cores_per_node=cluster.cores_per_node,
                idle_power_w=cluster.idle_power_w,
                cap_w=cap_w,
            )
            for cluster in chosen
        ),
        cap_counts_idle=cap_counts_idle,
        shared_cap_w={Scope.REGION: region_cap_w},
    )

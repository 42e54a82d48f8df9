"""The clusters that are simulated, as a file or by the names of the built-in ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.domain import eamc_source
from shared.domain.errors import UnusableError
from shared.runtime.user_files import read_yaml
from shared.scheduling.pool import Pool
from shared.scheduling.workload import Ints
from shared.simulation.played import Fleet
from shared.workloads.clusters import clusters
from shared.workloads.tariff import Tariff

_MODULE_OF: Final = {model: name for name, model in eamc_source.NODE_MODEL_OF_MODULE.items()}


def require_above_idle(pool: Pool, subject: str) -> None:
    """Raise UnusableError for a cap at or below what idles, under which nothing could start."""
    if pool.left_mw <= 0:
        raise UnusableError(
            f"the cap of {subject}, {pool.cap_w:,g} W, must be above the idle power that counts, "
            f"{pool.base_mw / 1000:,g} W: raise it, or say --no-cap-counts-idle"
        )


class SizeUnit(StrEnum):
    """What a cluster gives out, and what a workload's sizes count."""

    NODE = "node"
    CORE = "core"


class SimulatedCluster(BaseModel):
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

    @property
    def units_per_node(self) -> int:
        """1 where whole nodes are given out."""
        return self.cores_per_node if self.unit is SizeUnit.CORE else 1

    @property
    def units(self) -> int:
        """All that there is to give out."""
        return self.size_in(self.unit)

    @property
    def idle_unit_w(self) -> float:
        """What a unit draws that idles."""
        return self.idle_power_w / self.units_per_node

    def size_in(self, counts: SizeUnit) -> int:
        """All its nodes, or all their cores."""
        return self.nodes * (self.cores_per_node if counts is SizeUnit.CORE else 1)

    def units_for(self, sizes: Ints, counts: SizeUnit) -> Ints:
        """The units of jobs whose sizes (jobs,) count nodes or cores: whole nodes where no less is
        given out."""
        if counts is SizeUnit.NODE:
            return sizes * self.units_per_node
        return sizes if self.unit is SizeUnit.CORE else -(-sizes // self.cores_per_node)


@dataclass(frozen=True, slots=True)
class System:
    """Clusters in the order in which jobs are offered to them; the first is the primary one, that
    times relate to. `tariff_of` are tariffs by cluster, of all or of none; `cap_counts_idle` is
    False where caps are of what jobs draw beyond idle power alone. Raises UnusableError for no
    cluster, for two of one name, for tariffs of others, and for a cap below which all idles."""

    clusters: tuple[SimulatedCluster, ...]
    tariff_of: Mapping[str, Tariff] = field(default_factory=dict)
    cap_counts_idle: bool = True

    def __post_init__(self) -> None:
        names = [cluster.name for cluster in self.clusters]
        if not names or len(set(names)) < len(names):
            raise UnusableError(f"a system needs clusters of different names, got {names}")
        if self.tariff_of and set(self.tariff_of) != set(names):
            raise UnusableError(f"tariffs are for {sorted(self.tariff_of)}, clusters are {names}")
        for name, pool in zip(names, self.pools, strict=True):
            require_above_idle(pool, f"cluster {name}")

    @property
    def tariffs(self) -> tuple[Tariff, ...]:
        """One of each cluster; 1 per kWh where none was said."""
        return tuple(self.tariff_of.get(cluster.name, Tariff()) for cluster in self.clusters)

    @property
    def pools(self) -> list[Pool]:
        """What the timeline plays on, one of each cluster."""
        return [
            Pool(each.units, each.cap_w, each.idle_unit_w, self.cap_counts_idle)
            for each in self.clusters
        ]

    @property
    def fleet(self) -> Fleet:
        """What idles, and how much of it there is."""
        return Fleet(
            names=tuple(cluster.name for cluster in self.clusters),
            units=np.array([cluster.units for cluster in self.clusters]),
            idle_w=np.array([cluster.idle_unit_w for cluster in self.clusters]),
            cap_w=np.array([pool.most_w for pool in self.pools]),
            tariffs=self.tariffs if self.tariff_of else None,
        )


class _SystemFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    clusters: list[SimulatedCluster]


def read_system(path: Path, *, cap_counts_idle: bool = True) -> System:
    """A system from YAML: `clusters`, a list with the fields of SimulatedCluster.

    Raises OSError when the file cannot be read, UnusableError when it is not of this form.
    """
    try:
        content = _SystemFile.model_validate(read_yaml(path))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in error.errors()
        )
        raise UnusableError(f"{path} is no system: {problems}") from error
    return System(tuple(content.clusters), cap_counts_idle=cap_counts_idle)


def built_in_system(
    names: list[str], cap_w: float = inf, *, cap_counts_idle: bool = True
) -> System:
    """Clusters of the EAMC paper by name, of 512 nodes each, each under a cap of its own.

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
    )

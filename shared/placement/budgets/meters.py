"""Whether the meters of nodes that jobs hold are read, and what counts where they are not.

A cap leans on what is predicted and metered. Where the meter of a node that a job holds has been
silent for `meter_silence_s`, nobody knows what the node draws, and the most that it can by what its
cluster declares, its nameplate power, counts until it is read again. Silence is what is *not*
published, so that everything that fails between a meter and here makes a cap safe. A reading that
no node in use can show is none.

It is measured in the time of rounds, of which each counts for a minute at most: a region that made
no rounds, or a clock that jumped, is no silence.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np
from coplace.v1.placement_pb2 import NodeMetersSilent
from coplace.v1.prediction_pb2 import NodeMetersRead
from numpy.typing import NDArray

from shared.catalogue.event import Event, Publish
from shared.domain.cluster import Cluster
from shared.domain.folding import fold
from shared.domain.hostlist import expand
from shared.domain.node import NodeNames
from shared.domain.plausible_power import is_plausible
from shared.placement.state.announcements import announce
from shared.placement.state.candidate import nameplate_mw
from shared.placement.state.caps import Covered
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord
from shared.placement.state.job_table import JobTable
from shared.placement.state.model_store import ModelStore
from shared.streams.stages.stage import AlreadyAppliedError, Round
from shared.streams.state.rows import Form, RowCodec
from shared.streams.state.state import State

_TABLE: Final = "meters"
# What a round counts for at most, s.
_MOST_STEP_S: Final = 60.0
_NOBODY: Final = np.nan


@dataclass(slots=True)
class _Meters:
    """Those of a cluster: since when each node that a job holds was not read, in the time that is
    counted here (NaN: nobody holds it), which are silent, and which were read in the open round."""

    told_at_us: int
    since_s: NDArray[np.float64]
    silent: NDArray[np.bool_]
    read: NDArray[np.bool_]

    @classmethod
    def of(cls, nodes: int) -> Self:
        """Return the readings of so many nodes of which nothing was published yet."""
        silent, read = np.zeros((2, nodes), dtype=np.bool_)
        return cls(0, np.full(nodes, _NOBODY), silent, read)

    def resize(self, nodes: int) -> None:
        """Set the number of nodes, as the cluster was declared anew."""
        new, kept = self.of(nodes), min(nodes, len(self.since_s))
        for name in ("since_s", "silent", "read"):
            getattr(new, name)[:kept] = getattr(self, name)[:kept]
        self.since_s, self.silent, self.read = new.since_s, new.silent, new.read


class _KeptMeters(NamedTuple):
    """Nodes as runs: by the time since which they were not read, those that are silent, and those
    that were read in the open round."""

    told_at_us: int
    nodes: int
    since_s: tuple[tuple[float, tuple[int, ...]], ...]
    silent: tuple[int, ...]
    read: tuple[int, ...]


def _to_kept(meters: _Meters) -> _KeptMeters:
    held = np.flatnonzero(~np.isnan(meters.since_s))
    times_s = np.unique(meters.since_s[held]).tolist()
    since_s = tuple([(each_s, _runs(meters.since_s == each_s)) for each_s in times_s])
    nodes = len(meters.since_s)
    return _KeptMeters(meters.told_at_us, nodes, since_s, _runs(meters.silent), _runs(meters.read))


def _of_kept(kept: _KeptMeters) -> _Meters:
    found = _Meters.of(kept.nodes)
    found.told_at_us = kept.told_at_us
    for since_s, runs in kept.since_s:
        _fill(found.since_s, runs, since_s)
    _fill(found.silent, kept.silent, True)
    _fill(found.read, kept.read, True)
    return found


def _runs(where: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return first and count of each run of nodes, one after the other."""
    changes = np.flatnonzero(np.diff(where, prepend=False, append=False))
    changes[1::2] -= changes[::2]
    return tuple(changes.tolist())


def _fill(nodes: NDArray[Any], runs: tuple[int, ...], value: float) -> None:
    for first, count in zip(runs[::2], runs[1::2], strict=True):
        nodes[first : first + count] = value


_METERS: Final = RowCodec(_Meters, form=Form(_KeptMeters, _to_kept, _of_kept))


class CountedTime(NamedTuple):
    """The time in which silence is measured, s, and the end of the last round that counted."""

    time_s: float = 0.0
    now_s: float | None = None


class SilentNodes(NamedTuple):
    """How many nodes are silent under a cap, what their jobs draw by nameplate, mW, and whether
    that follows from design powers for any of them."""

    nodes: int
    nameplate_mw: int
    is_derived: bool


class Meters:
    """Folds what is read, and publishes at the end of a round what is not. A cluster of which
    nothing was ever read, or that declares nothing that a nameplate power follows from, counts as
    predicted."""

    def __init__(self, state: State, job_table: JobTable, models: ModelStore) -> None:
        self._job_table, self._models, self._rules = job_table, models, models.rules
        self._known = state.table(_TABLE, _METERS)
        self._clock = state.value("meters-clock", CountedTime)
        self._time_s, self._now_s = self._clock.get() or CountedTime()

    def read(self, event: Event, message: NodeMetersRead) -> None:
        """Record that meters were read: from here on their nodes' silence counts anew. Raises
        AlreadyAppliedError for what is not newer than the last, and of an unknown cluster."""
        cluster = self._models.clusters.get(message.cluster)
        if cluster is None:
            raise AlreadyAppliedError(event.id)
        names = self._models.node_names[message.cluster]
        meters = self._known.get(message.cluster) or _Meters.of(cluster.nodes)
        if message.told_at_us <= meters.told_at_us:
            raise AlreadyAppliedError(event.id)
        read = [*_trusted(names, message, cluster)]
        meters.read[[node for node in read if node < len(meters.read)]] = True
        meters.told_at_us = message.told_at_us
        self._known.put(message.cluster, meters)

    def of_round(self, ended: Round) -> list[Publish]:
        """Let time pass; publish the silent nodes of clusters where they are others than before."""
        if not self._known:
            return []
        before_s, self._now_s = self._now_s, ended.now_s
        if before_s is not None:
            self._time_s += min(max(ended.now_s - before_s, 0.0), _MOST_STEP_S)
        self._clock.put(CountedTime(self._time_s, self._now_s))
        published = []
        for name, meters in self._known.items():
            if name not in self._models.clusters:
                self._known.drop(name)
            elif self._pass_time(name, meters):
                published.append(self._silence(name, ended))
        if published or self.any_silent:
            self._count()
        return published

    def due_s(self) -> Iterator[float]:
        """Yield when a node may fall silent, or a part of the time until then has passed."""
        silence_s = self._rules.now.meter_silence_s
        for name, meters in self._known.items():
            waiting_s = meters.since_s[~np.isnan(meters.since_s) & ~meters.silent]
            if silence_s and self._nameplate_w(name) and len(waiting_s) and self._now_s is not None:
                left_s = silence_s - (self._time_s - float(waiting_s.min()))
                yield self._now_s + min(max(left_s, 0.0), _MOST_STEP_S)

    def silent(self, cluster: str) -> NDArray[np.intp]:
        """Return the nodes of a cluster whose meters are silent, ascending."""
        meters = self._known.get(cluster)
        return np.flatnonzero(meters.silent) if meters else np.array([], dtype=np.intp)

    @property
    def any_silent(self) -> bool:
        """Return whether the meter of any node is silent."""
        return any(meters.silent.any() for meters in self._known.values())

    def under(self, covered: Covered) -> SilentNodes:
        """Return which nodes are silent under a cap."""
        clusters = [c for c in self._models.clusters.values() if covered.covers(c)]
        silent = {c.name: len(self.silent(c.name)) for c in clusters}
        jobs = self._job_table.allocations.all() if any(silent.values()) else ()
        nameplate_mw = [
            job.run.drawn_mw for job, p in jobs if p.silent_units and p.cluster in silent
        ]
        is_derived = any(silent[c.name] and c.nameplate_is_derived for c in clusters)
        return SilentNodes(sum(silent.values()), sum(nameplate_mw), is_derived)

    def counted(self, job: JobRecord, placed: JobAllocation) -> tuple[int, int]:
        """Return how many units of a job are on nodes whose meters are silent, and what it counts
        for, mW.

        It counts for the nameplate power of their share of these nodes, and what is predicted of
        the others. Both are 0 where all are read.
        """
        meters = self._known.get(placed.cluster)
        if meters is None:
            return 0, 0
        there = np.array(placed.nodes, dtype=np.intp)
        units = np.array(placed.units or (1,) * len(there))
        is_known = there < len(meters.silent)
        silent = int(units[is_known][meters.silent[there[is_known]]].sum())
        if not silent:
            return 0, 0
        cluster, all_units = self._models.clusters[placed.cluster], int(units.sum())
        predicted_mw = (placed.draw_mw or 0) * (all_units - silent) // all_units
        return silent, nameplate_mw(job.job, cluster, silent) + predicted_mw

    def _nameplate_w(self, name: str) -> float:
        cluster = self._models.clusters.get(name)
        return cluster.most_node_w if cluster else 0.0

    def _pass_time(self, name: str, meters: _Meters) -> bool:
        """Return whether other nodes are silent now."""
        occupancy = self._job_table.allocations.occupancy[name]
        if len(meters.since_s) != occupancy.nodes:
            meters.resize(occupancy.nodes)
            self._known.changed(name)
        is_new = np.isnan(meters.since_s) | meters.read
        since_s = np.where(is_new, self._time_s, meters.since_s)
        since_s[np.array(occupancy.capacity.holders) == 0] = _NOBODY
        silence_s = self._rules.now.meter_silence_s
        silent = (meters.silent & ~meters.read) | (self._time_s - since_s >= silence_s)
        if not silence_s or not self._nameplate_w(name):
            silent = np.zeros_like(silent)
        is_other = not np.array_equal(silent, meters.silent)
        is_same = np.array_equal(since_s, meters.since_s, equal_nan=True)
        if is_other or not is_same or meters.read.any():
            self._known.changed(name)
        meters.since_s, meters.silent, meters.read = since_s, silent, np.zeros_like(silent)
        return is_other

    def _count(self) -> None:
        """Let every job that holds nodes count for what nobody can meter of it."""
        for job, placed in self._job_table.allocations.all():
            self._job_table.count_nameplate(job, *self.counted(job, placed))

    def _silence(self, name: str, ended: Round) -> Publish:
        names, silent = self._models.node_names[name], self.silent(name).tolist()
        message = NodeMetersSilent(
            cluster=name,
            nodes=fold(names.name(node) for node in silent),
            silent_nodes=len(silent),
            nameplate_power_w=self._nameplate_w(name),
            meter_silence_s=self._rules.now.meter_silence_s,
            round=ended.number,
            told_at_us=ended.ended_at_us,
            nameplate_derived=self._models.clusters[name].nameplate_is_derived,
        )
        return announce(message, f"{name}/{ended.number}", name, ended)


def repair(state: State, now_us: int) -> None:
    """Set times in the future, which a wrong clock gave, to now."""
    meters = state.table(_TABLE, _METERS)
    for name, each in meters.items():
        if each.told_at_us > now_us:
            each.told_at_us = now_us
            meters.changed(name)


def _trusted(names: NodeNames, message: NodeMetersRead, cluster: Cluster) -> Iterator[int]:
    """Yield those of the nodes that a message names which were declared, but for those whose meter
    shows what no node in use draws: it is as good as silent. Of nodes without a job nobody asks."""
    told, told_mw = list(told_nodes(names, message)), message.node_power_mw
    has_powers = len(told) == len(told_mw)
    for place, node in enumerate(told):
        node_w = told_mw[place] / 1000 if has_powers else cluster.idle_power_w
        if node is not None and is_plausible(cluster, node_w, in_use=True):
            yield node


def told_nodes(names: NodeNames, message: NodeMetersRead) -> Iterator[int | None]:
    """Yield the nodes that a message names, in their order; None for one that nobody declared."""
    for text in message.nodes:
        alone = names.find(text)
        yield from [alone] if alone is not None else map(names.find, expand(text))

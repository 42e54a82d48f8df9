"""Which job drew what a node's meter showed, what it drew over its whole run, and the factors of
nodes that follow."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from math import fsum
from typing import Final, NamedTuple

from coplace.v1.jobs_pb2 import JobStarted
from coplace.v1.prediction_pb2 import NodePowerMeasured, RunningPowerMeasured

from coplace_client.bounds import NODE_POWER_W
from coplace_client.millicores import millicores
from services.prediction.node_factors import NodeDraw, node_factors
from services.prediction.node_shares import NodeUser, shares_mw
from services.prediction.publish import node_power_event, running_power_event
from shared.catalogue.event import Event, Publish
from shared.domain.cluster import Cluster
from shared.domain.folding import names_of
from shared.domain.job import Job
from shared.streams.stages.stage import Round
from shared.streams.state.rows import RowCodec
from shared.streams.state.state import State

# As for the other models: trained on so many first, then on twice as many each time.
MIN_DRAWS: Final = 50
# Older draws are dropped for newer ones, some at a time.
REMEMBERED: Final = 8_000
FORGOTTEN_AT_ONCE: Final = 800

# What a running job draws is published once meters covered so much of it, and again when it is this
# share off what was published, but not sooner than so long after.
LEAST_COVERED_US: Final = 600_000_000
LEAST_CHANGE: Final = 0.1
LEAST_PAUSE_US: Final = 1_800_000_000
# Meters show what a job drew where each of its nodes was read over this share of its run at least.
LEAST_METERED: Final = 0.5
# What a node used whole was to draw, W, by attempt; None where nothing was predicted.
ExpectedWatts = Callable[[str], float | None]


class Occupant(NamedTuple):
    """A job on its nodes, which are named as its start did; `ended_us` is 0 while it runs. Of one
    that shares nodes or uses part of them: units on each node (empty: one), and cores of a unit (0:
    half a node's), in thousandths where these are no whole ones."""

    app_id: str
    freq_ghz: float
    nodes: tuple[str, ...]
    started_us: int
    ended_us: int = 0
    is_alone: bool = True
    units: tuple[int, ...] = ()
    cores_per_unit: int = 0
    is_changed: bool = False
    millicores_per_unit: int = 0

    @property
    def names(self) -> list[str]:
        """Return its nodes by name."""
        return names_of(self.nodes)

    def had(self, first_us: int, last_us: int) -> bool:
        """Return whether it ran all that time as it had started."""
        has_ended = self.ended_us and self.ended_us < last_us
        return self.started_us <= first_us and not has_ended and not self.is_changed

    def was_there(self, first_us: int, last_us: int) -> bool:
        """Return whether it ran for some of that time."""
        return self.started_us <= last_us and (first_us <= self.ended_us or not self.ended_us)

    def millicores_on(self, node: str, cluster: Cluster) -> int:
        """Return its thousandths of a core on one of its nodes."""
        units = self.units[self.names.index(node)] if self.units else 1
        cores = self.cores_per_unit or cluster.cores_for(shareable=True)
        return units * millicores(cores, self.millicores_per_unit)


# The version before said no thousandths of a core, and reads as it was.
_OCCUPANTS: Final = RowCodec(Occupant, version=2, previous=RowCodec(Occupant).decode)


class WaitingReading(NamedTuple):
    """A node's readings that wait for their round's end."""

    time_us: int
    event_id: str
    cluster: str
    node: str
    node_model: str
    first_us: int
    last_us: int
    power_w: float
    samples: int = 1


class MeteredNode(NamedTuple):
    """What a node's meter showed of one job so far: the sum of the samples, their number, and from
    when until when."""

    power_w: float
    samples: int
    first_us: int
    last_us: int

    @property
    def mean_w(self) -> float:
        """Return the mean power of all samples, W."""
        return self.power_w / self.samples

    @property
    def covered_us(self) -> int:
        """Return the time from the first sample to the last."""
        return self.last_us - self.first_us

    def and_reading(self, reading: WaitingReading) -> "MeteredNode":
        """Return the node with one reading more."""
        return MeteredNode(
            self.power_w + reading.power_w * reading.samples,
            self.samples + reading.samples,
            min(self.first_us, reading.first_us),
            max(self.last_us, reading.last_us),
        )


class PublishedPower(NamedTuple):
    """The power of a running job as published, and until when it was measured."""

    until_us: int
    power_w: float

    def is_old(self, until_us: int, power_w: float) -> bool:
        """Return whether another figure is worth publishing."""
        is_off = abs(power_w / self.power_w - 1) >= LEAST_CHANGE
        return is_off and until_us - self.until_us >= LEAST_PAUSE_US


class TrainedFactors(NamedTuple):
    """How many draws the factors that were published last were trained on, and how many were
    forgotten since."""

    draws: int = 0
    forgotten: int = 0


class NodePower:
    """Folds starts, ends and readings. What the node of jobs shows that share it, or use part of
    it, is split among them."""

    def __init__(self, state: State) -> None:
        self._occupants = state.table("occupant", _OCCUPANTS)
        self._readings = state.table("reading", WaitingReading)
        self._draws = state.table("draw", NodeDraw)
        self._metered = state.table("metered", MeteredNode)
        self._told = state.table("told-power", PublishedPower)
        # Until when somebody was on a node with others who is not known any more.
        self._left_us = state.table("left-node", int)
        self._trained = state.value("node-power", TrainedFactors)
        self._on: dict[str, set[str]] = defaultdict(set)
        for key, occupant in self._occupants.items():
            self._enter(key, occupant)
        self._ended = {key for key, occupant in self._occupants.items() if occupant.ended_us}

    def start(self, key: str, job: Job, message: JobStarted) -> None:
        """Note that an attempt of a job started on these nodes."""
        if key in self._occupants:
            return
        occupant = Occupant(
            app_id=job.app_id,
            freq_ghz=message.freq_ghz,
            nodes=tuple(message.nodes),
            started_us=message.started_at_us,
            is_alone=not (job.shareable or job.cores_per_unit),
            units=tuple(message.node_units),
            cores_per_unit=job.cores_per_unit,
            millicores_per_unit=job.millicores_per_unit,
        )
        self._occupants.put(key, occupant)
        self._enter(key, occupant)

    def finish(self, key: str, ended_us: int) -> None:
        """Note that an attempt ended; its readings may still come, until the end of the round."""
        occupant = self._occupants.get(key)
        if occupant is not None:
            self._occupants.put(key, occupant._replace(ended_us=ended_us))
            self._ended.add(key)

    def changed(self, key: str) -> None:
        """Note that an attempt runs at another P-state, or was suspended: it says nothing of its
        nodes, nor do those that share them."""
        occupant = self._occupants.get(key)
        if occupant is None:
            return
        if not occupant.is_alone:
            self._occupants.put(key, occupant._replace(is_changed=True))
            return
        self._leave(key)
        self._ended.discard(key)

    def is_in_use(self, node: str) -> bool:
        """Return whether a job that has not ended is on a node."""
        there = map(self._occupants.get, self._on.get(node, ()))
        return any(each is not None and not each.ended_us for each in there)

    def metered_w(self, key: str) -> float | None:
        """Return what a node of a job drew for it over its run, in the mean; None where meters did
        not cover it."""
        occupant = self._occupants.get(key)
        if occupant is None or not occupant.ended_us or occupant.is_changed:
            return None
        found = [self._metered.get(f"{key}|{node}") for node in occupant.names]
        least_us = LEAST_METERED * (occupant.ended_us - occupant.started_us)
        nodes = [each for each in found if each and each.covered_us >= least_us]
        if not found or len(nodes) < len(found):
            return None
        return fsum(each.mean_w for each in nodes) / len(nodes)

    def read(self, event: Event, message: NodePowerMeasured) -> None:
        """Note a reading of a node's meter, the mean of some samples."""
        if message.power_w > 0:
            reading = WaitingReading(
                event.time_us,
                event.id,
                message.cluster,
                message.node,
                message.node_model,
                message.first_at_us,
                message.last_at_us,
                message.power_w,
                message.samples,
            )
            self._readings.put(event.id, reading)

    def end_round(
        self, ended: Round, clusters: Mapping[str, Cluster], expected_w: ExpectedWatts
    ) -> list[Publish]:
        """Attribute the round's readings; publish what jobs draw that run, and factors when there
        are enough new readings. Jobs that ended are known until `forget_ended`. `expected_w` is
        what a node used whole was to draw, by attempt."""
        read: dict[str, str] = {}
        for reading in sorted(self._readings.values()):
            read |= dict.fromkeys(self._attribute(reading), reading.cluster)
            self._split(reading, clusters.get(reading.cluster), expected_w)
            self._readings.drop(reading.event_id)
        told = [self._running(key, cluster) for key, cluster in sorted(read.items())]
        published = [running_power_event(each, ended) for each in told if each is not None]
        return published + self._factors(ended)

    def _factors(self, ended: Round) -> list[Publish]:
        trained_on, forgotten = self._trained.get() or TrainedFactors()
        seen = forgotten + len(self._draws)
        if seen < max(MIN_DRAWS, 2 * trained_on):
            return []
        draws = sorted(self._draws.values())
        self._trained.put(TrainedFactors(seen, forgotten + self._forget(draws)))
        return [node_power_event(node_factors(draws), len(draws), ended)]

    def forget_ended(self) -> None:
        """Forget attempts that ended: no reading of theirs counts any more."""
        for key in sorted(self._ended):
            self._leave(key)
        self._ended.clear()

    def _running(self, key: str, cluster: str) -> RunningPowerMeasured | None:
        """Publish what a running job draws, where it is worth publishing."""
        occupant = self._occupants.get(key)
        if occupant is None or occupant.ended_us or not occupant.is_alone:
            return None
        nodes = [self._metered.get(f"{key}|{node}") for node in occupant.names]
        known = [each for each in nodes if each and each.covered_us >= LEAST_COVERED_US]
        if len(known) < len(nodes):
            return None
        until_us = min(each.last_us for each in known)
        power_w = fsum(each.mean_w for each in known) / len(known)
        told = self._told.get(key)
        if not NODE_POWER_W.has(power_w) or (told and not told.is_old(until_us, power_w)):
            return None
        self._told.put(key, PublishedPower(until_us, power_w))
        job_id, _, attempt = key.rpartition("|")
        return RunningPowerMeasured(
            job_id=job_id,
            attempt=int(attempt),
            cluster=cluster,
            freq_ghz=occupant.freq_ghz,
            node_power_w=power_w,
            measured_at_us=until_us,
        )

    def _attribute(self, reading: WaitingReading) -> list[str]:
        """To whoever had the node for itself. The newest readings of each job on each node count.
        Returns whose they were."""
        found = []
        for key in sorted(self._on.get(reading.node, ())):
            occupant = self._occupants.get(key)
            if occupant is None or not occupant.is_alone:
                continue
            if not occupant.had(reading.first_us, reading.last_us):
                continue
            self._meter(f"{key}|{reading.node}", reading)
            found.append(key)
            if occupant.app_id:
                group = f"{occupant.app_id}|{reading.node_model}|{occupant.freq_ghz!r}"
                draw = NodeDraw(
                    *(reading.time_us, reading.event_id, reading.cluster, reading.node),
                    group=group,
                    power_w=reading.power_w,
                )
                before = self._draws.get(f"{key}|{reading.node}")
                if before is None or before < draw:
                    self._draws.put(f"{key}|{reading.node}", draw)
        return found

    def _split(
        self, reading: WaitingReading, cluster: Cluster | None, expected_w: ExpectedWatts
    ) -> None:
        """Among the jobs that shared the node; to none of them where one was not there all the
        time, or not as it had started, since nobody knows what it drew meanwhile."""
        there = {
            key: occupant
            for key in sorted(self._on.get(reading.node, ()))
            if (occupant := self._occupants.get(key))
            and occupant.was_there(reading.first_us, reading.last_us)
        }
        had = (each.had(reading.first_us, reading.last_us) for each in there.values())
        alone = any(each.is_alone for each in there.values())
        if cluster is None or not there or alone or not all(had):
            return
        if reading.first_us <= (self._left_us.get(reading.node) or 0):
            return
        jobs = [
            NodeUser(each.millicores_on(reading.node, cluster), expected_w(key))
            for key, each in there.items()
        ]
        node_cores = cluster.cores_per_node
        if sum(job.millicores for job in jobs) > cluster.millicores_per_node:
            return
        *drawn_mw, _ = shares_mw(reading.power_w, cluster.idle_power_w, node_cores, jobs)
        for key, of_job_mw in zip(there, drawn_mw, strict=True):
            self._meter(f"{key}|{reading.node}", reading._replace(power_w=of_job_mw / 1000))

    def _meter(self, key: str, reading: WaitingReading) -> None:
        nothing = MeteredNode(0.0, 0, reading.first_us, reading.last_us)
        self._metered.put(key, (self._metered.get(key) or nothing).and_reading(reading))

    def _forget(self, draws: list[NodeDraw]) -> int:
        """How many of the oldest were dropped."""
        if len(draws) < REMEMBERED + FORGOTTEN_AT_ONCE:
            return 0
        newest = set(draws[FORGOTTEN_AT_ONCE:])
        for key, draw in list(self._draws.items()):
            if draw not in newest:
                self._draws.drop(key)
        return FORGOTTEN_AT_ONCE

    def _enter(self, key: str, occupant: Occupant) -> None:
        for node in occupant.names:
            self._on[node].add(key)

    def _leave(self, key: str) -> None:
        occupant = self._occupants.drop(key)
        if key in self._told:
            self._told.drop(key)
        for node in occupant.names if occupant else ():
            self._on[node].discard(key)
            if occupant and not occupant.is_alone:
                left_us = max(occupant.ended_us, self._left_us.get(node) or 0)
                self._left_us.put(node, left_us)
            if f"{key}|{node}" in self._metered:
                self._metered.drop(f"{key}|{node}")

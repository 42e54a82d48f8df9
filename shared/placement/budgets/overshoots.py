"""Where meters show more than a cap of power allows: since when, by how much, and why.

Predictions keep to a cap; meters need not. About once a minute prediction publishes what the meters
of the nodes under a cap showed. What they show together counts until the next time, for two minutes
at most. Within five minutes one time above a cap is the same as the one before.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from coplace.v1.placement_pb2 import PowerCapExceeded, UnderPredicted
from coplace.v1.prediction_pb2 import NodeMetersRead

from shared.catalogue.event import Publish
from shared.domain.cluster import Cluster
from shared.domain.plausible_power import is_plausible
from shared.placement.budgets.metered_power import (
    UNREAD,
    MeteredPower,
    Milliwatts,
    Misjudged,
    expected_mw,
    furthest,
    metered_power,
)
from shared.placement.budgets.meters import told_nodes
from shared.placement.state.allocations import Allocations
from shared.placement.state.announcements import announce
from shared.placement.state.caps import MESSAGES, Covered
from shared.placement.state.model_store import ModelStore
from shared.scheduling.power import NO_CAP_MW, Scope
from shared.streams.stages.stage import Round
from shared.streams.state.rows import Form, RowCodec
from shared.streams.state.state import State

_METERED: Final = "metered"
_ABOVE: Final = "overshoot"
# Readings count for so long at most, and what is above again sooner than this is not over.
STANDS_US: Final = 120_000_000
OVER_US: Final = 300_000_000
# Of arrays in the changelog: milliwatts as an unsigned number would not have UNREAD.
_STORED: Final = np.dtype("<i4")


_ARRAYS: Final[RowCodec[Milliwatts]] = RowCodec(
    np.ndarray,
    form=Form(
        bytes,
        lambda array: array.astype(_STORED).tobytes(),
        lambda kept: np.frombuffer(kept, dtype=_STORED).astype(np.int64),
    ),
)


class Shown(NamedTuple):
    """What is drawn under a cap as meters show it, and what the cap was then; on how many nodes it
    was metered."""

    at_us: int = 0
    measured_mw: int = 0
    cap_mw: int = NO_CAP_MW
    metered: int = 0

    @property
    def above_mw(self) -> int:
        """Return what is drawn beyond the cap, mW; 0 below it."""
        return max(self.measured_mw - self.cap_mw, 0)

    def stands_at(self, now_us: int) -> bool:
        """Return whether meters showed it that recently."""
        return bool(self.metered) and now_us - self.at_us < STANDS_US


_NOTHING: Final = Shown()


@dataclass(slots=True)
class Overshoot:
    """A time above a cap, until when it is known to have lasted, for how long it was above in
    between, what was drawn beyond it, and the worst moment with who was misjudged then."""

    began_us: int
    until_us: int
    above_us: int
    above_mj: int
    worst: Shown
    misjudged: tuple[Misjudged, ...]
    misjudged_in_all: int


@dataclass(slots=True)
class UnderCap:
    """What is known of one cap: the last figures, what lasts, and sums of all that ever was."""

    last: Shown = _NOTHING
    lasts: Overshoot | None = None
    above_us: int = 0
    above_mj: int = 0

    @property
    def until_us(self) -> int:
        """Return until when the draw was above the cap, if the last figures count to their end."""
        assert self.lasts is not None
        return self.last.at_us + STANDS_US if self.last.above_mw else self.lasts.until_us

    def pass_time(self, now_us: int) -> None:
        """Count the last figures until now, or for as long as they can."""
        for_us = min(max(now_us - self.last.at_us, 0), STANDS_US)
        above_mw = self.last.above_mw
        if self.lasts and above_mw:
            above_mj = for_us * above_mw // 1_000_000
            self.lasts.until_us = self.last.at_us + for_us
            self.lasts.above_us += for_us
            self.lasts.above_mj += above_mj
            self.above_us += for_us
            self.above_mj += above_mj

    def show(self, now: Shown, misjudged: tuple[Misjudged, ...], in_all: int) -> bool:
        """Take new figures; return whether the draw is above the cap since now."""
        self.last = now
        began = bool(now.above_mw) and self.lasts is None
        if began:
            self.lasts = Overshoot(now.at_us, now.at_us, 0, 0, now, misjudged, in_all)
        if self.lasts and now.above_mw > self.lasts.worst.above_mw:
            self.lasts.worst, self.lasts.misjudged = now, misjudged
            self.lasts.misjudged_in_all = in_all
        return began


class Overshoots:
    """Folds readings of clusters, and compares them with the caps at the end of a round."""

    def __init__(self, state: State, allocations: Allocations, models: ModelStore) -> None:
        self._allocations, self._models = allocations, models
        self._metered = state.table(_METERED, MeteredPower)
        # What nodes were expected to draw at the last readings, and what meters showed since.
        self._expected = state.table("metered-expected", _ARRAYS)
        self._read = state.table("metered-read", _ARRAYS)
        self._rows = state.table(_ABOVE, UnderCap)
        self._caps = {_covered(key): under for key, under in self._rows.items()}

    def read(self, message: NodeMetersRead) -> None:
        """Record what meters of a known cluster showed: of the open round the last counts."""
        told_mw = message.node_power_mw
        nodes = self._models.clusters[message.cluster].nodes
        found: Milliwatts = np.full(nodes, UNREAD, dtype=np.int64)
        told = list(told_nodes(self._models.node_names[message.cluster], message))
        if not told_mw or len(told) != len(told_mw):
            return
        for node, power_mw in zip(told, told_mw, strict=True):
            if node is not None and node < nodes:
                found[node] = power_mw
        self._read.put(message.cluster, found)

    def of_round(self, ended: Round) -> list[Publish]:
        """Compare what was published in the round with caps; publish what began above or is
        over."""
        told = [name for name in self._models.clusters if name in self._read]
        for name in told:
            self._meter(name, ended.ended_at_us)
        for gone in [covered for covered in self._caps if covered not in self._models.caps]:
            del self._caps[gone]
            self._rows.drop(_key(gone))
        published = []
        for covered in self._models.caps:
            there = {n for n, c in self._models.clusters.items() if covered.covers(c)}
            is_told = not there.isdisjoint(told)
            found = self._caps.get(covered)
            if found and found.lasts and self._is_over(found, ended.ended_at_us, is_told=is_told):
                published.append(self._exceeded(covered, found.lasts, ended, is_over=True))
                found.lasts = None
            if is_told:
                found = self._caps.setdefault(covered, UnderCap())
                if self._show(covered, found, sorted(there), ended) and found.lasts:
                    published.append(self._exceeded(covered, found.lasts, ended))
        return published

    def due_s(self) -> Iterator[float]:
        """Yield when a time above a cap will have been over for long enough."""
        for found in self._caps.values():
            if found.lasts:
                yield (found.until_us + OVER_US) / 1e6

    def under(self, covered: Covered) -> UnderCap:
        """Return what meters show of a cap."""
        return self._caps.get(covered) or UnderCap()

    def _meter(self, name: str, at_us: int) -> None:
        cluster = self._models.clusters[name]
        jobs = [(job, p) for job, p in self._allocations.running() if p.cluster == name]
        expected = expected_mw(cluster.nodes, jobs)
        read = _fitted(self._read.drop(name), cluster.nodes)
        _distrust(cluster, read, {node for _, placed in jobs for node in placed.nodes})
        before = _fitted(self._expected.get(name), cluster.nodes)
        metered = metered_power(cluster, jobs, expected, before, read, at_us)
        self._metered.put(name, metered)
        self._expected.put(name, expected)

    def _is_over(self, found: UnderCap, now_us: int, *, is_told: bool) -> bool:
        """Return whether what lasted has been over for long enough; count the time until now."""
        is_over = now_us - found.until_us >= OVER_US
        if is_told or is_over:
            found.pass_time(now_us)
        return is_over

    def _show(self, covered: Covered, found: UnderCap, there: list[str], ended: Round) -> bool:
        """Take new figures; return whether the draw is above the cap since now. Where no reading
        counts nobody knows of any cap that is exceeded."""
        self._rows.put(_key(covered), found)
        at_us = ended.ended_at_us
        of_there = [self._metered.get(name) for name in there]
        metered = [each for each in of_there if each and at_us - each.at_us < STANDS_US]
        nodes = sum(each.metered for each in metered)
        drawn_mw = self._models.idle_mw(covered) + sum(self._beyond_mw(n, at_us) for n in there)
        cap_mw = self._models.caps[covered].cap.limit_mw(ended.now_s) if nodes else NO_CAP_MW
        misjudged = furthest(job for each in metered for job in each.misjudged)
        now = Shown(at_us, drawn_mw, cap_mw, nodes)
        return found.show(now, misjudged, sum(each.above for each in metered))

    def _beyond_mw(self, name: str, now_us: int) -> int:
        """Return what a cluster draws beyond idle: as metered, or else as expected."""
        metered = self._metered.get(name)
        if metered and now_us - metered.at_us < STANDS_US:
            return metered.beyond_mw
        return self._allocations.occupancy[name].drawn_mw

    def _exceeded(
        self, covered: Covered, lasts: Overshoot, ended: Round, *, is_over: bool = False
    ) -> Publish:
        self._rows.changed(_key(covered))
        cap = self._models.caps[covered].cap
        message = PowerCapExceeded(
            scope=MESSAGES[covered.scope],
            name=covered.name,
            declared_by=cap.author,
            reason=cap.reason,
            began_at_us=lasts.began_us,
            ended_at_us=lasts.until_us if is_over else 0,
            measured_w=lasts.worst.measured_mw / 1000,
            cap_w=lasts.worst.cap_mw / 1000,
            above_s=lasts.above_us / 1e6,
            above_j=lasts.above_mj / 1000,
            jobs=map(_under_predicted, lasts.misjudged),
            jobs_left_out=lasts.misjudged_in_all - len(lasts.misjudged),
            round=ended.number,
            told_at_us=ended.ended_at_us,
        )
        subject = (
            f"{covered.scope}/{covered.name}/{lasts.began_us}/{'over' if is_over else 'began'}"
        )
        return announce(message, subject, covered.name, ended)


def repair(state: State, now_us: int) -> None:
    """Drop what a wrong clock metered in the future."""
    metered, above = state.table(_METERED, MeteredPower), state.table(_ABOVE, UnderCap)
    for name, power in metered.items():
        if power.at_us > now_us:
            metered.drop(name)
    for key, under in above.items():
        if under.last.at_us > now_us:
            above.drop(key)


def _under_predicted(job: Misjudged) -> UnderPredicted:
    return UnderPredicted(
        job_id=job.job_id,
        attempt=job.attempt,
        cluster=job.cluster,
        predicted_w=job.predicted_mw / 1000,
        measured_w=job.measured_mw / 1000,
    )


def _fitted(array: Milliwatts | None, nodes: int) -> Milliwatts:
    """Return the array for as many nodes as a cluster has now."""
    found: Milliwatts = np.full(nodes, UNREAD, dtype=np.int64)
    if array is not None:
        kept = min(nodes, len(array))
        found[:kept] = array[:kept]
    return found


def _distrust(cluster: Cluster, read: Milliwatts, in_use: Collection[int]) -> None:
    """Make those nodes unread whose meters show what no node draws; others may be off."""
    for node in np.flatnonzero(read != UNREAD).tolist():
        if not is_plausible(cluster, int(read[node]) / 1000, in_use=node in in_use):
            read[node] = UNREAD


def _key(covered: Covered) -> str:
    return f"{covered.scope}/{covered.name}"


def _covered(key: str) -> Covered:
    scope, _, name = key.partition("/")
    return Covered(Scope(scope), name)

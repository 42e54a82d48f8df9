"""Where meters show more than a cap of power allows: since when, by how much, and why.

Predictions keep to a cap; meters need not. About once a minute prediction tells what the meters of
the nodes under a cap showed. What they show together stands until the next time, for two minutes at
most. Within five minutes one time above a cap is the same as the one before.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, Self

import numpy as np
import orjson
from coplace.v1.placement_pb2 import PowerCapExceeded, UnderPredicted
from coplace.v1.prediction_pb2 import NodeMetersRead

from shared.catalogue.event import Publish
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

_METERED: Final = "metered/"
_EXPECTED: Final = "metered-expected/"
_READ: Final = "metered-read/"
_ABOVE: Final = "overshoot/"
# What was told counts for so long at most, and what is above again sooner than this is not over.
STANDS_US: Final = 120_000_000
OVER_US: Final = 300_000_000
# Of arrays in the changelog: milliwatts as an unsigned number would not have UNREAD.
_STORED: Final = np.dtype("<i4")


class Shown(NamedTuple):
    """What is drawn under a cap as meters show it, and what the cap was then; on how many nodes it
    was metered."""

    at_us: int = 0
    measured_mw: int = 0
    cap_mw: int = NO_CAP_MW
    metered: int = 0

    @property
    def above_mw(self) -> int:
        """What is drawn beyond the cap, mW; 0 below it."""
        return max(self.measured_mw - self.cap_mw, 0)

    def stands_at(self, now_us: int) -> bool:
        """Whether meters showed it that recently."""
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
        """Until when it was above the cap, if the last figures stand for as long as they can."""
        assert self.lasts is not None
        return self.last.at_us + STANDS_US if self.last.above_mw else self.lasts.until_us

    def pass_time(self, now_us: int) -> None:
        """The last figures stood until now, or for as long as they can."""
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
        """Take new figures; whether it is above the cap since now."""
        self.last = now
        began = bool(now.above_mw) and self.lasts is None
        if began:
            self.lasts = Overshoot(now.at_us, now.at_us, 0, 0, now, misjudged, in_all)
        if self.lasts and now.above_mw > self.lasts.worst.above_mw:
            self.lasts.worst, self.lasts.misjudged = now, misjudged
            self.lasts.misjudged_in_all = in_all
        return began

    def to_bytes(self) -> bytes:
        """What is kept of a cap between rounds, as a JSON array."""
        lasts: list[Any] | None = None
        if self.lasts:
            *figures, worst, misjudged, in_all = (
                getattr(self.lasts, field.name) for field in fields(self.lasts)
            )
            lasts = [*figures, [*worst], [[*job] for job in misjudged], in_all]
        return orjson.dumps([[*self.last], lasts, self.above_us, self.above_mj])

    @classmethod
    def from_bytes(cls, value: bytes) -> Self:
        """What `to_bytes` wrote."""
        last, lasts, above_us, above_mj = orjson.loads(value)
        return cls(Shown(*last), _overshoot(lasts) if lasts else None, above_us, above_mj)


def _overshoot(figures: list[Any]) -> Overshoot:
    began_us, until_us, above_us, above_mj, worst, misjudged, in_all = figures
    jobs = tuple(Misjudged(*job) for job in misjudged)
    return Overshoot(began_us, until_us, above_us, above_mj, Shown(*worst), jobs, in_all)


class Overshoots:
    """Folds readings of clusters, and compares them with the caps at the end of a round."""

    def __init__(
        self, restored: Mapping[str, bytes], allocations: Allocations, models: ModelStore
    ) -> None:
        self._allocations, self._models = allocations, models
        self._metered: dict[str, MeteredPower] = {}
        self._arrays: dict[str, Milliwatts] = {}
        self._caps: dict[Covered, UnderCap] = {}
        self._changed: set[str] = set()
        for key, value in sorted(restored.items()):
            if key.startswith((_EXPECTED, _READ)):
                self._arrays[key] = np.frombuffer(value, dtype=_STORED).astype(np.int64)
            elif key.startswith(_METERED):
                name = key.removeprefix(_METERED)
                self._metered[name] = MeteredPower.from_bytes(value)
            elif key.startswith(_ABOVE):
                self._caps[_covered(key)] = UnderCap.from_bytes(value)

    def changes(self) -> dict[str, bytes | None]:
        """What changed since the last call; None for what is gone."""
        changed, self._changed = self._changed, set()
        return {key: self._record(key) for key in sorted(changed)}

    def read(self, message: NodeMetersRead) -> None:
        """Meters of a cluster that is known showed this; of the open round the last word counts."""
        told_mw = message.node_power_mw
        nodes = self._models.clusters[message.cluster].nodes
        found: Milliwatts = np.full(nodes, UNREAD, dtype=np.int64)
        told = list(told_nodes(self._models.node_names[message.cluster], message))
        if not told_mw or len(told) != len(told_mw):
            return
        for node, power_mw in zip(told, told_mw, strict=True):
            if node is not None and node < nodes:
                found[node] = power_mw
        self._put(_READ + message.cluster, found)

    def of_round(self, ended: Round) -> list[Publish]:
        """Compare what was told in the round; tells of what began above a cap or is over."""
        told = [name for name in self._models.clusters if _READ + name in self._arrays]
        for name in told:
            self._meter(name, ended.ended_at_us)
        for gone in [covered for covered in self._caps if covered not in self._models.caps]:
            del self._caps[gone]
            self._changed.add(_key(gone))
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
        """When a time above a cap will have been over for long enough."""
        for found in self._caps.values():
            if found.lasts:
                yield (found.until_us + OVER_US) / 1e6

    def under(self, covered: Covered) -> UnderCap:
        """What meters show of a cap."""
        return self._caps.get(covered) or UnderCap()

    def _meter(self, name: str, at_us: int) -> None:
        cluster = self._models.clusters[name]
        jobs = [(job, p) for job, p in self._allocations.running() if p.cluster == name]
        expected = expected_mw(cluster.nodes, jobs)
        read = _fitted(self._arrays.pop(_READ + name), cluster.nodes)
        before = _fitted(self._arrays.get(_EXPECTED + name), cluster.nodes)
        self._metered[name] = metered_power(cluster, jobs, expected, before, read, at_us)
        self._put(_EXPECTED + name, expected)
        self._changed |= {_READ + name, _METERED + name}

    def _is_over(self, found: UnderCap, now_us: int, *, is_told: bool) -> bool:
        """Whether what lasted has been over for long enough; the time until now is counted."""
        is_over = now_us - found.until_us >= OVER_US
        if is_told or is_over:
            found.pass_time(now_us)
        return is_over

    def _show(self, covered: Covered, found: UnderCap, there: list[str], ended: Round) -> bool:
        """Take new figures; whether it is above the cap since now. Where no reading counts nobody
        knows of any cap that is exceeded."""
        self._changed.add(_key(covered))
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
        """As metered, or else as expected."""
        metered = self._metered.get(name)
        if metered and now_us - metered.at_us < STANDS_US:
            return metered.beyond_mw
        return self._allocations.occupancy[name].drawn_mw

    def _exceeded(
        self, covered: Covered, lasts: Overshoot, ended: Round, *, is_over: bool = False
    ) -> Publish:
        self._changed.add(_key(covered))
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

    def _put(self, key: str, value: Milliwatts) -> None:
        self._arrays[key] = value
        self._changed.add(key)

    def _record(self, key: str) -> bytes | None:
        if key.startswith((_EXPECTED, _READ)):
            array = self._arrays.get(key)
            return None if array is None else array.astype(_STORED).tobytes()
        if key.startswith(_METERED):
            metered = self._metered.get(key.removeprefix(_METERED))
            return metered.to_bytes() if metered else None
        found = self._caps.get(_covered(key))
        return found.to_bytes() if found else None


def repaired(restored: Mapping[str, bytes], now_us: int) -> Mapping[str, bytes | None]:
    """What was metered by a wrong clock in the future is forgotten."""
    wrong = [
        *(k for k, v in restored.items() if k.startswith(_METERED) and orjson.loads(v)[0] > now_us),
        *(k for k, v in restored.items() if k.startswith(_ABOVE) and _is_ahead(v, now_us)),
    ]
    return dict.fromkeys(wrong)


def _is_ahead(value: bytes, now_us: int) -> bool:
    return UnderCap.from_bytes(value).last.at_us > now_us


def _under_predicted(job: Misjudged) -> UnderPredicted:
    return UnderPredicted(
        job_id=job.job_id,
        attempt=job.attempt,
        cluster=job.cluster,
        predicted_w=job.predicted_mw / 1000,
        measured_w=job.measured_mw / 1000,
    )


def _fitted(array: Milliwatts | None, nodes: int) -> Milliwatts:
    """Of as many nodes as a cluster has now."""
    found: Milliwatts = np.full(nodes, UNREAD, dtype=np.int64)
    if array is not None:
        kept = min(nodes, len(array))
        found[:kept] = array[:kept]
    return found


def _key(covered: Covered) -> str:
    return f"{_ABOVE}{covered.scope}/{covered.name}"


def _covered(key: str) -> Covered:
    scope, _, name = key.removeprefix(_ABOVE).partition("/")
    return Covered(Scope(scope), name)

"""Why an entry did not start: words that name what would have to be different."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import isinf
from pathlib import Path
from traceback import extract_tb
from typing import Final, NamedTuple

from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_CAPACITY,
    CONSTRAINT_KIND_MISFIT,
    CONSTRAINT_KIND_NEIGHBOUR,
    CONSTRAINT_KIND_NOT_TRIED,
    CONSTRAINT_KIND_OWN_RESERVATION,
    CONSTRAINT_KIND_POWER_BUDGET,
    CONSTRAINT_KIND_RESERVATION,
    CONSTRAINT_KIND_RESERVED_NODES,
    CONSTRAINT_KIND_UNEXPLAINED,
)

from coplace_client.millicores import cores_text
from shared.domain.times import in_utc
from shared.placement.budgets.reserved import holder_id
from shared.placement.decide.refusals import (
    AwaitsLook,
    Busy,
    DelaysReservation,
    KeptForOthers,
    LicencesMissing,
    NeighboursRefuse,
    NodesNeverReleased,
    Refusal,
    Refusals,
    ReservationBegins,
    TooFew,
    WattsMissing,
)
from shared.placement.explain.constraints import NODES, UNITS, WATTS, Constraint, in_words
from shared.placement.explain.licence_words import licences_missing
from shared.placement.explain.power_words import POWER_CAP, shortage_words
from shared.placement.state.actions import CapShortage
from shared.scheduling.backfill import ClusterScheduler, Start, units_of
from shared.scheduling.power import Shortage
from shared.scheduling.problem import CORES, takes_nodes
from shared.scheduling.wait_queue import Entry

# What is said of an entry that came into the queue after the pass.
NOTHING: Final = Constraint(
    CONSTRAINT_KIND_NOT_TRIED,
    "nothing keeps it from starting: it is tried at the end of the next round",
)
_RELEASED: Final = Constraint(CONSTRAINT_KIND_NOT_TRIED, "watts were released after it had started")
_MOST_TEXT: Final = 256
_MOST_SAID: Final = 1024
# Reservations that a reason names.
_MOST_WINDOWS: Final = 3


class WhyNot(NamedTuple):
    """What keeps an entry from starting, nothing where it starts; and the budgets of power among
    that, each by itself."""

    constraints: Sequence[Constraint] = ()
    shortages: Sequence[Shortage] = ()

    @property
    def text(self) -> str:
        """Return all constraints in words; empty where the entry starts."""
        return in_words(self.constraints)


def unexplained(error: Exception) -> Constraint:
    """Return the constraint where an explanation failed: which defect to report."""
    at = extract_tb(error.__traceback__)[-1]
    place = f"{at.name} of {Path(at.filename).name}"
    words = f"no explanation, please report {type(error).__name__} in {place}: {error}"
    return Constraint(CONSTRAINT_KIND_UNEXPLAINED, words[:_MOST_TEXT])


@dataclass(frozen=True, slots=True)
class RefusalWords:
    """Words the refusals of one pass; `job_ids` by arrival number."""

    refusals: Refusals
    job_ids: Mapping[int, str]
    # What was said of shortages, by their identity: clusters of one model lack the same of a site.
    _said: dict[int, tuple[Shortage, str]] = field(default_factory=dict)

    def why(self, cluster: str, entry: Entry) -> WhyNot:
        """Return why an entry did not start when its turn came: see Refusals."""
        scheduler = self.refusals.plan.schedulers[cluster]
        found = self.refusals.of(cluster, entry)
        constraints = [self._constraint(scheduler, entry, each) for each in found]
        last = found[-1] if found else None
        shortages = last.shortages if isinstance(last, WattsMissing) else ()
        return WhyNot(constraints or [NOTHING], shortages)

    def of_reservation(self, arrival: int) -> str:
        """Return whose reservation is meant, or for whom watts are being freed."""
        return holder_id(arrival, self.job_ids)

    def no_power(self, start: Start, entry: Entry) -> WhyNot:
        """Return why an entry starts at a lower P-state than its own, as it is when the pass is
        over."""
        shortages = self.refusals.shortages(start.cluster, entry)
        if not shortages:
            return WhyNot([_RELEASED])
        return WhyNot([_of_watts(self._no_watts(shortages), shortages)], shortages)

    def _constraint(self, on: ClusterScheduler, entry: Entry, refusal: Refusal) -> Constraint:
        match refusal:  # what comes most often goes first
            case TooFew() | Busy() | NeighboursRefuse():
                return _too_few(on, entry, refusal)
            case WattsMissing(shortages, count):
                words = self._no_watts(shortages)
                if count:
                    words = f"{words}; nor at {count} lower P-state{'s' * (count > 1)}"
                return _of_watts(words, shortages)
            case NodesNeverReleased():
                held = "jobs that are suspended, and that no"
                words = f"{held} {POWER_CAP} lets run on, hold nodes that it needs"
                return Constraint(CONSTRAINT_KIND_CAPACITY, words)
            case LicencesMissing(licences):
                now_s = self.refusals.plan.now_s
                return licences_missing(licences, self.of_reservation, now_s)
            case DelaysReservation():
                return self._delays(on, entry, refusal)
            case AwaitsLook() | ReservationBegins() | KeptForOthers():
                return _awaits(on, entry, refusal)

    def _delays(self, on: ClusterScheduler, entry: Entry, found: DelaysReservation) -> Constraint:
        job, start_s = self.of_reservation(found.reserved_for), found.start_s
        reservation = f"the reservation of {job} at {in_utc(start_s)}"
        ends = f"would end at {in_utc(found.ends_s)},"
        if found.extra is None:
            words, unit = f"{ends} and leave less than {reservation} needs", _units_of(on, entry)[1]
        else:
            words = f"{ends} after {reservation}, and use more than its {found.extra} extra nodes"
            unit = NODES
        by = found.needed, found.extra, unit, start_s, job
        return Constraint(CONSTRAINT_KIND_RESERVATION, words, *by)

    def _no_watts(self, shortages: Iterable[Shortage]) -> str:
        """Return in words what a job needs and none of these budgets has."""
        return "; ".join(map(self._told, shortages))

    def _told(self, shortage: Shortage) -> str:
        said = self._said.get(id(shortage))
        if said is None:
            if len(self._said) == _MOST_SAID:
                self._said.clear()
            lacks = CapShortage.of(shortage, self.of_reservation(shortage.reserved_for))
            words = shortage_words(lacks, self.refusals.plan.now_s)
            said = self._said[id(shortage)] = shortage, words
        return said[1]


def _awaits_look(found: AwaitsLook) -> Constraint:
    words = f"Slurm's backfill looks again at {in_utc(found.at_s)}"
    if found.depth:
        words = f"{words}: its last look ended after {found.depth} jobs"
    elif found.records:
        words = f"{words}: its last look ended when its table had {found.records} records"
    return Constraint(CONSTRAINT_KIND_NOT_TRIED, words, until_s=found.at_s)


def _awaits(
    on: ClusterScheduler, entry: Entry, found: AwaitsLook | ReservationBegins | KeptForOthers
) -> Constraint:
    """Return that an entry waits for a time: of a look, or of what is reserved."""
    if isinstance(found, AwaitsLook):
        return _awaits_look(found)
    return _reserved(on, entry, found)


def _reserved(
    on: ClusterScheduler, entry: Entry, found: ReservationBegins | KeptForOthers
) -> Constraint:
    """Return that the reservation of an entry has not begun, or which ones it would run into, the
    one that ends last in figures."""
    if isinstance(found, ReservationBegins):
        words = f"its reservation {found.reservation} begins at {in_utc(found.begin_s)}"
        own, until_s = CONSTRAINT_KIND_OWN_RESERVATION, found.begin_s
        return Constraint(own, words, until_s=until_s, by=found.reservation)
    asked, unit = _units_of(on, entry)
    named = [
        f"{each.name} from {in_utc(each.from_s)} until {in_utc(each.until_s)}"
        for each in found.windows[:_MOST_WINDOWS]
    ]
    left = len(found.windows) - len(named)
    into = "; ".join(named) + (f"; and {left} more" if left else "")
    words = f"needs {asked}, {found.free} free of what is not reserved: it would end at"
    words = f"{words} {in_utc(found.ends_s)} at its limit, and run into {into}"
    last = max(found.windows, key=lambda each: each.until_s)
    figures = found.needed, found.free, unit, last.until_s, last.name
    return Constraint(CONSTRAINT_KIND_RESERVED_NODES, words, *figures)


def _too_few(
    on: ClusterScheduler, entry: Entry, refusal: TooFew | Busy | NeighboursRefuse
) -> Constraint:
    asked, unit = _units_of(on, entry)
    needed = f"needs {asked}"
    match refusal:
        case Busy(count, free, until_s):
            words = f"{needed}, {free} free"
            return Constraint(CONSTRAINT_KIND_CAPACITY, words, count, free, unit, until_s)
        case TooFew(count, total):
            has = f"the cluster has {total}"
            if units_of(on) is not None:
                has = f"{total} fit on the cluster when it is empty"
            return Constraint(CONSTRAINT_KIND_MISFIT, f"{needed}, {has}", count, total, unit)
        case NeighboursRefuse(count, free, why):
            words = f"{needed}, {free} free beside neighbours that suit it: {why}"
            return Constraint(CONSTRAINT_KIND_NEIGHBOUR, words, count, free, unit)


def _of_watts(words: str, shortages: Sequence[Shortage]) -> Constraint:
    """Return all budgets that refuse an entry, with the figures of the one that lets it start
    last."""
    last = shortages[0]
    for shortage in shortages:
        if shortage.until_s > last.until_s:
            last = shortage
    return Constraint(
        CONSTRAINT_KIND_POWER_BUDGET,
        words,
        last.needed_mw / 1000,
        last.available_mw / 1000,
        WATTS,
        0.0 if isinf(last.until_s) else last.until_s,
        last.cap.name,
    )


def _units_of(on: ClusterScheduler, entry: Entry) -> tuple[str, str]:
    """Return what an entry asks for, in words: so many nodes, or units of so much; and which of
    both."""
    units = units_of(on)
    if units is None:
        return f"{entry.nodes} nodes", NODES
    table, shape = units.table, units.kinds[entry.kind].shape
    if shape.parts:
        return f"{entry.nodes} nodes in {len(shape.parts)} parts at once", NODES
    are_nodes = takes_nodes(table, shape)
    asked = _in_words(table.names, shape.needs, shape.exclusive, are_nodes, entry.nodes)
    where = " where it may be" if shape.where else ""
    return asked + where, NODES if are_nodes else UNITS


def _need_words(name: str, need: int) -> str:
    if name == CORES:
        return f"{cores_text(need)} {name}"
    return f"{need} {name.replace('memory_mib', 'MiB')}"


@lru_cache(maxsize=4096)  # the jobs of a round are of few shapes
def _in_words(
    names: Sequence[str], needs: Sequence[int], exclusive: bool, are_nodes: bool, count: int
) -> str:
    named = zip(names, needs, strict=True)
    parts = [_need_words(name, need) for name, need in named if need]
    if not are_nodes:
        alone = ", on nodes of its own" if exclusive else ""
        return f"{count} unit{'s' * (count > 1)} of {', '.join(parts)}{alone}"
    more = f" with {', '.join(parts[1:])}" if len(parts) > 1 else ""
    return f"{count} nodes{more}"

"""Why an entry did not start: texts that name what would have to be different."""

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
    CONSTRAINT_KIND_POWER_BUDGET,
    CONSTRAINT_KIND_RESERVATION,
    CONSTRAINT_KIND_UNEXPLAINED,
)

from shared.domain.power import in_watts
from shared.domain.times import in_utc
from shared.placement.reasons.constraints import NODES, UNITS, WATTS, Constraint, in_words
from shared.scheduling.backfill import ClusterScheduler, Dispatch, Start
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.load import ClusterState
from shared.scheduling.power import Shortage
from shared.scheduling.problem import Shape, takes_nodes
from shared.scheduling.wait_queue import Entry

# In whatever is said of a budget of power.
POWER: Final = "power cap"
# What is said of an entry that came into the queue after the pass.
NOTHING: Final = Constraint(
    CONSTRAINT_KIND_NOT_TRIED,
    "nothing stands against it: it is tried at the end of the next round",
)
_CAME_BACK: Final = Constraint(CONSTRAINT_KIND_NOT_TRIED, "watts came back after it had started")
_MOST_TEXT: Final = 256
_MOST_SAID: Final = 1024
# The arrival number of no job, in shortages.
_NOBODY: Final = -1


def freed_holder(arrival: int) -> int:
    """What budgets call who keeps the watts that are being freed for the job of this arrival
    number; and the other way about."""
    return _NOBODY - 1 - arrival


class WhyNot(NamedTuple):
    """What stands against an entry, nothing where it starts; and the budgets of power among that,
    each by itself."""

    constraints: Sequence[Constraint] = ()
    shortages: Sequence[Shortage] = ()

    @property
    def text(self) -> str:
        """In words; empty where it starts."""
        return in_words(self.constraints)


def unexplained(error: Exception) -> Constraint:
    """What stands where an explanation failed: which defect to report."""
    at = extract_tb(error.__traceback__)[-1]
    place = f"{at.name} of {Path(at.filename).name}"
    words = f"no explanation, please report {type(error).__name__} in {place}: {error}"
    return Constraint(CONSTRAINT_KIND_UNEXPLAINED, words[:_MOST_TEXT])


def told(shortage: Shortage, now_s: float, reserved_for: str) -> str:
    """A budget of power that lets a job not start: what it needs, what there is, until when, and
    who declared the cap."""
    cap, later = shortage.cap, shortage.at_s > now_s
    available_mw = shortage.available_mw
    left = f"{in_watts(available_mw)} left under the"
    if available_mw < 0:
        left = f"{in_watts(-available_mw)} more than is allowed is drawn under the"
    left = f"{left} {POWER} of {cap.subject}"
    since = f" from {in_utc(shortage.at_s)} on" if later else ""
    rest = f", beside the reservation of {reserved_for}" if reserved_for else ""
    never = isinf(shortage.until_s)
    until = "as long as it stays as declared" if never else f"until {in_utc(shortage.until_s)}"
    why = f": {cap.reason}" if cap.reason else ""
    author = f" (declared by {cap.author}{why})" if cap.author else ""
    return f"needs {in_watts(shortage.needed_mw)}, {left}{author}{since}{rest}, {until}"


@dataclass(frozen=True, slots=True)
class Refusals:
    """The reasons of one pass; `job_ids` by arrival number."""

    plan: Dispatch
    job_ids: Mapping[int, str]
    # What was said of shortages, by their identity: clusters of one model lack the same of a site.
    _said: dict[int, tuple[Shortage, str]] = field(default_factory=dict)

    def why(self, cluster: str, entry: Entry) -> WhyNot:
        """Why an entry did not start when its turn came. Of watts it is said what there is when the
        pass is over, without what the job itself has on another cluster: there was more before, but
        not enough."""
        scheduler = self.plan.schedulers[cluster]
        if isinstance(scheduler, ConsumableScheduler):
            found = self._why_no_units(scheduler, entry)
        else:
            found = self._why_no_nodes(scheduler, entry, scheduler.state_before(entry))
        constraints: list[Constraint] = []
        if found is not None:
            is_promised = scheduler.reserved_for == entry.arrival
            if is_promised and found.kind == CONSTRAINT_KIND_CAPACITY and scheduler.reservation:
                found = found._replace(until_s=scheduler.reservation.start_s)
            constraints.append(found)
        never = self._why_never(scheduler, entry)
        if never is not None:
            constraints.append(never)
        shortages = self.shortages(cluster, entry)
        if shortages:
            constraints.append(self._why_no_power(shortages, entry))
        return WhyNot(constraints or [NOTHING], shortages)

    def shortages(self, cluster: str, entry: Entry) -> list[Shortage]:
        """The budgets of power that did not let an entry start."""
        return self.plan.schedulers[cluster].shortages(entry)

    def no_watts(self, shortages: Iterable[Shortage]) -> str:
        """What a job needs that no budget of these has for it, in words."""
        return "; ".join(map(self._told, shortages))

    def lacks_watts_alone(self, cluster: str, entry: Entry) -> bool:
        """Whether an entry would start now, behind all that did, but for budgets of power."""
        scheduler = self.plan.schedulers[cluster]
        if isinstance(scheduler, ConsumableScheduler):
            has_room = self._why_no_units(scheduler, entry) is None
        else:
            is_own = scheduler.reservation and scheduler.reservation.arrival == entry.arrival
            now = scheduler.state
            now = now._replace(reservation=None) if is_own else now
            has_room = self._why_no_nodes(scheduler, entry, now) is None
        return has_room and bool(self.shortages(cluster, entry))

    def of_reservation(self, arrival: int) -> str:
        """Whose reservation is meant, or for whom watts are being freed; empty for nobody."""
        if arrival == _NOBODY:
            return ""
        return self.job_ids.get(max(arrival, freed_holder(arrival)), "a job that is gone since")

    def no_power(self, start: Start, entry: Entry) -> WhyNot:
        """Why an entry starts at a lower P-state than its own, as it is when the pass is over."""
        shortages = self.shortages(start.cluster, entry)
        if not shortages:
            return WhyNot([_CAME_BACK])
        return WhyNot([_of_watts(self.no_watts(shortages), shortages)], shortages)

    def _why_never(self, scheduler: ClusterScheduler, entry: Entry) -> Constraint | None:
        """That nodes which an entry needs are held for ever; None where they are expected back."""
        if not scheduler.is_any_allocated_for_ever or scheduler.expects_nodes(entry):
            return None
        held = "jobs that are suspended, and that no"
        words = f"{held} {POWER} lets run on, hold nodes that it needs"
        return Constraint(CONSTRAINT_KIND_CAPACITY, words)

    def _why_no_power(self, shortages: Sequence[Shortage], entry: Entry) -> Constraint:
        words, count = self.no_watts(shortages), len(entry.others)
        if count:
            words = f"{words}; nor at {count} lower P-state{'s' * (count > 1)}"
        return _of_watts(words, shortages)

    def _told(self, shortage: Shortage) -> str:
        said = self._said.get(id(shortage))
        if said is None:
            if len(self._said) == _MOST_SAID:
                self._said.clear()
            words = told(shortage, self.plan.now_s, self.of_reservation(shortage.reserved_for))
            said = self._said[id(shortage)] = shortage, words
        return said[1]

    def _why_no_nodes(
        self, scheduler: EasyScheduler, entry: Entry, before: ClusterState
    ) -> Constraint | None:
        nodes, total, free = entry.nodes, scheduler.total, before.free
        if nodes > total:
            words = f"needs {nodes} nodes, the cluster has {total}"
            return Constraint(CONSTRAINT_KIND_MISFIT, words, nodes, total, NODES)
        if nodes > free:
            words = f"needs {nodes} nodes, {free} free"
            return Constraint(CONSTRAINT_KIND_CAPACITY, words, nodes, free, NODES)
        if before.in_time(scheduler.end_s(entry)) or nodes <= before.extra:
            return None
        assert before.reservation is not None
        job, start_s = self.of_reservation(before.reservation.arrival), before.reservation.start_s
        words = (
            f"would end at {in_utc(scheduler.end_s(entry))}, after {_reservation(job, start_s)}, "
            f"and use more than its {before.extra} extra nodes"
        )
        return Constraint(
            CONSTRAINT_KIND_RESERVATION, words, nodes, before.extra, NODES, start_s, job
        )

    def _why_no_units(self, scheduler: ConsumableScheduler, entry: Entry) -> Constraint | None:
        """What is in its way now that the pass is over: what was then is so still."""
        units, now = entry.nodes, scheduler.units_now(entry)
        if units <= now:
            return self._why_reserved(scheduler, entry)
        asked, unit = _units_of(scheduler, entry)
        needed, most = f"needs {asked}", scheduler.most_units(entry)
        if units > most:
            words = f"{needed}, the cluster has room for {most} when it is empty"
            return Constraint(CONSTRAINT_KIND_MISFIT, words, units, most, unit)
        beside_anyone = scheduler.units_beside_anyone(entry)
        if units > beside_anyone:
            words = f"{needed}, {beside_anyone} free"
            return Constraint(CONSTRAINT_KIND_CAPACITY, words, units, beside_anyone, unit)
        why = scheduler.why_no_neighbour(entry)
        words = f"{needed}, {now} free beside neighbours that suit it: {why}"
        return Constraint(CONSTRAINT_KIND_NEIGHBOUR, words, units, now, unit)

    def _why_reserved(self, scheduler: ConsumableScheduler, entry: Entry) -> Constraint | None:
        """The reservation that it would delay, though its units are free."""
        reservation = scheduler.reservation
        is_own = reservation is not None and reservation.arrival == entry.arrival
        if reservation is None or is_own or scheduler.leaves_reservation(entry):
            return None
        job, start_s = self.of_reservation(reservation.arrival), reservation.start_s
        needed_then = f"and leave less than {_reservation(job, start_s)} needs"
        words = f"would end at {in_utc(scheduler.end_s(entry))}, {needed_then}"
        by = entry.nodes, None, _units_of(scheduler, entry)[1], start_s, job
        return Constraint(CONSTRAINT_KIND_RESERVATION, words, *by)


def _of_watts(words: str, shortages: Sequence[Shortage]) -> Constraint:
    """All budgets that refuse an entry, with the figures of the one that lets it start last."""
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


def _reservation(job: str, start_s: float) -> str:
    return f"the reservation of {job} at {in_utc(start_s)}"


def _units_of(scheduler: ConsumableScheduler, entry: Entry) -> tuple[str, str]:
    """What an entry asks for, in words: so many nodes, or units of so much; and which of both."""
    table, shape = scheduler.table, scheduler.kinds[entry.kind].shape
    are_nodes = takes_nodes(table, shape)
    asked = _in_words(table.names, shape, are_nodes, entry.nodes)
    return asked, NODES if are_nodes else UNITS


@lru_cache(maxsize=4096)  # the jobs of a round are of few shapes
def _in_words(names: Sequence[str], shape: Shape, are_nodes: bool, count: int) -> str:
    named = zip(names, shape.needs, strict=True)
    parts = [f"{need} {name.replace('memory_mib', 'MiB')}" for name, need in named if need]
    if not are_nodes:
        alone = ", on nodes of its own" if shape.exclusive else ""
        return f"{count} unit{'s' * (count > 1)} of {', '.join(parts)}{alone}"
    more = f" with {', '.join(parts[1:])}" if len(parts) > 1 else ""
    return f"{count} nodes{more}"

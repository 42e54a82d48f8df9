"""Why an entry did not start: texts that name what would have to be different."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from math import isinf
from pathlib import Path
from traceback import extract_tb
from typing import Final, NamedTuple

from shared.scheduling.backfill import ClusterScheduler, Dispatch, Start
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.load import ClusterState, Reservation
from shared.scheduling.power import Shortage
from shared.scheduling.problem import Shape, takes_nodes
from shared.scheduling.wait_queue import Entry

# In whatever is said of a budget of power.
POWER: Final = "power cap"
# What is said of an entry that came into the queue after the pass.
NOTHING: Final = "nothing stands against it: it is tried at the end of the next round"
_MOST_TEXT: Final = 256
# The arrival number of no job, in shortages.
_NOBODY: Final = -1


def freed_holder(arrival: int) -> int:
    """What budgets call who keeps the watts that are being freed for the job of this arrival
    number; and the other way about."""
    return _NOBODY - 1 - arrival


class WhyNot(NamedTuple):
    """Why an entry does not start, in words, empty where it does; and the budgets of power among
    what stands against it."""

    text: str = ""
    shortages: Sequence[Shortage] = ()


@lru_cache(maxsize=1024)  # the jobs of a round wait for the same few reservations and caps
def when(time_s: float) -> str:
    """A time in UTC to the second."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unexplained(error: Exception) -> str:
    """What stands where an explanation failed: which defect to report."""
    at = extract_tb(error.__traceback__)[-1]
    place = f"{at.name} of {Path(at.filename).name}"
    return f"no explanation, please report {type(error).__name__} in {place}: {error}"[:_MOST_TEXT]


@lru_cache(maxsize=4096)  # a job needs the same under each of its caps
def watts(power_mw: int) -> str:
    """Milliwatts in the unit of caps."""
    return f"{power_mw / 1000:,.10g} W"


def told(shortage: Shortage, now_s: float, reserved_for: str) -> str:
    """A budget of power that lets a job not start: what it needs, what there is, until when, and
    who declared the cap."""
    cap, later = shortage.cap, shortage.at_s > now_s
    available_mw = shortage.available_mw
    left = f"{watts(available_mw)} left under the"
    if available_mw < 0:
        left = f"{watts(-available_mw)} more than is allowed is drawn under the"
    left = f"{left} {POWER} of {cap.subject}"
    since = f" from {when(shortage.at_s)} on" if later else ""
    rest = f", beside the reservation of {reserved_for}" if reserved_for else ""
    never = isinf(shortage.until_s)
    until = "as long as it stays as declared" if never else f"until {when(shortage.until_s)}"
    why = f": {cap.reason}" if cap.reason else ""
    author = f" (declared by {cap.author}{why})" if cap.author else ""
    return f"needs {watts(shortage.needed_mw)}, {left}{author}{since}{rest}, {until}"


@dataclass(frozen=True, slots=True)
class Refusals:
    """The reasons of one pass; `job_ids` by arrival number."""

    plan: Dispatch
    job_ids: Mapping[int, str]

    def why(self, cluster: str, entry: Entry) -> WhyNot:
        """Why an entry did not start when its turn came. Of watts it is said what there is when the
        pass is over, without what the job itself has on another cluster: there was more before, but
        not enough."""
        scheduler = self.plan.schedulers[cluster]
        if isinstance(scheduler, ConsumableScheduler):
            found = self._why_no_units(scheduler, entry)
        else:
            found = self._why_no_nodes(scheduler, entry, scheduler.state_before(entry))
        shortages = self.shortages(cluster, entry)
        texts = [found, self._why_never(scheduler, entry), *self._why_no_power(shortages, entry)]
        return WhyNot("; ".join(filter(None, texts)) or NOTHING, shortages)

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
            fits = not self._why_no_units(scheduler, entry)
        else:
            is_own = scheduler.reservation and scheduler.reservation.arrival == entry.arrival
            now = scheduler.state
            now = now._replace(reservation=None) if is_own else now
            fits = not self._why_no_nodes(scheduler, entry, now)
        return fits and bool(self.shortages(cluster, entry))

    def of_reservation(self, arrival: int) -> str:
        """Whose reservation is meant, or for whom watts are being freed; empty for nobody."""
        if arrival == _NOBODY:
            return ""
        return self.job_ids.get(max(arrival, freed_holder(arrival)), "a job that is gone since")

    def no_power(self, start: Start, entry: Entry) -> WhyNot:
        """Why an entry starts at a lower P-state than its own, as it is when the pass is over."""
        shortages = self.shortages(start.cluster, entry)
        told = "; ".join(map(self._told, shortages)) or "watts came back after it had started"
        return WhyNot(told, shortages)

    def _why_never(self, scheduler: ClusterScheduler, entry: Entry) -> str:
        """That nodes which an entry needs are held for ever; empty where they are expected back."""
        if not scheduler.is_any_held_for_ever or scheduler.expects_nodes(entry):
            return ""
        return f"jobs that are suspended, and that no {POWER} lets run on, hold nodes that it needs"

    def _why_no_power(self, shortages: Sequence[Shortage], entry: Entry) -> Iterator[str]:
        yield from map(self._told, shortages)
        if shortages and entry.others:
            count = len(entry.others)
            yield f"nor at {count} lower P-state{'s' * (count > 1)}"

    def _told(self, shortage: Shortage) -> str:
        return told(shortage, self.plan.now_s, self.of_reservation(shortage.reserved_for))

    def _why_no_nodes(self, scheduler: EasyScheduler, entry: Entry, before: ClusterState) -> str:
        if entry.nodes > scheduler.total:
            return f"needs {entry.nodes} nodes, the cluster has {scheduler.total}"
        if entry.nodes > before.free:
            return f"needs {entry.nodes} nodes, {before.free} free"
        if before.in_time(scheduler.end_s(entry)) or entry.nodes <= before.extra:
            return ""
        assert before.reservation is not None
        reserved = self._reservation(before.reservation)
        return (
            f"would end at {when(scheduler.end_s(entry))}, after {reserved}, and "
            f"use more than its {before.extra} extra nodes"
        )

    def _why_no_units(self, scheduler: ConsumableScheduler, entry: Entry) -> str:
        """What is in its way now that the pass is over: what was then is so still."""
        needed, most = f"needs {units_of(scheduler, entry)}", scheduler.most_units(entry)
        if entry.nodes > most:
            return f"{needed}, the cluster has room for {most} when it is empty"
        beside_anyone, now = scheduler.units_beside_anyone(entry), scheduler.units_now(entry)
        if entry.nodes > beside_anyone:
            return f"{needed}, {beside_anyone} free"
        if entry.nodes > now:
            why = scheduler.why_no_neighbour(entry)
            return f"{needed}, {now} free beside neighbours that suit it: {why}"
        reservation = scheduler.reservation
        is_own = reservation is not None and reservation.arrival == entry.arrival
        if reservation is None or is_own or scheduler.leaves_reservation(entry):
            return ""
        needed_then = f"and leave less than {self._reservation(reservation)} needs"
        return f"would end at {when(scheduler.end_s(entry))}, {needed_then}"

    def _reservation(self, reservation: Reservation) -> str:
        job = self.of_reservation(reservation.arrival)
        return f"the reservation of {job} at {when(reservation.start_s)}"


def units_of(scheduler: ConsumableScheduler, entry: Entry) -> str:
    """What an entry asks for, in words: so many nodes, or units of so much."""
    table, shape = scheduler.table, scheduler.kinds[entry.kind].shape
    return _in_words(table.names, shape, takes_nodes(table, shape), entry.nodes)


@lru_cache(maxsize=4096)  # the jobs of a round are of few shapes
def _in_words(names: Sequence[str], shape: Shape, are_nodes: bool, count: int) -> str:
    named = zip(names, shape.needs, strict=True)
    parts = [f"{need} {name.replace('memory_mib', 'MiB')}" for name, need in named if need]
    if not are_nodes:
        alone = ", on nodes of its own" if shape.exclusive else ""
        return f"{count} unit{'s' * (count > 1)} of {', '.join(parts)}{alone}"
    more = f" with {', '.join(parts[1:])}" if len(parts) > 1 else ""
    return f"{count} nodes{more}"

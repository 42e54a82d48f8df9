"""Licences and other counted things of a cluster, a site or the region, and their use over time.

A licence is a budget whose unit is one licence: `power.py` counts it as it counts milliwatts. A job
holds all that it needs from its start to its end, and reserves all of it together.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from shared.domain.resources import Resources
from shared.scheduling.power import Budgets, PowerBudget, Shortage

# The budgets of each licence that the jobs of a cluster may have, by name.
LicenceBudgets = Mapping[str, Sequence[PowerBudget]]
_NONE: Final[LicenceBudgets] = {}


class LicenceShortage(NamedTuple):
    """A licence that a job lacks: its name, in which budget, and how many of that each holder has,
    by arrival number, the largest first."""

    name: str
    shortage: Shortage
    holders: Sequence[tuple[int, int]]


class Licences:
    """The licences that jobs of one cluster may have: of the cluster, its site and the region.

    Where several are declared by one name, a job takes of each. `any` is False where there is none,
    and nothing has to be asked.
    """

    def __init__(self, budgets: LicenceBudgets = _NONE) -> None:
        self._by_name = {name: Budgets(each) for name, each in budgets.items()}
        self.any = bool(self._by_name)
        # What jobs that run, and those with a reservation, have of them.
        self._held: dict[int, Resources] = {}
        self._reserved: dict[int, Resources] = {}

    def begin(self, now_s: float) -> bool:
        """Begin a pass; return True when some may have been released since the last one did."""
        is_relieved = False
        for budgets in self._by_name.values():
            is_relieved |= budgets.begin(now_s)
        return is_relieved

    def unused(self) -> tuple[int, ...]:
        """Return how many of each nobody has, in the order of their names."""
        return tuple([self._by_name[name].undrawn_mw for name in sorted(self._by_name)])

    @property
    def is_relieved(self) -> bool:
        """Return True when some that are shared were given up since the pass began: see Budgets."""
        return any(budgets.is_relieved for budgets in self._by_name.values())

    def withdraw(self) -> None:
        """Count a reservation that is given up while others look: see Budgets."""
        for budgets in self._by_name.values():
            budgets.withdraw()

    def has(self, needs: Resources, until_s: float, arrival: int = -1) -> bool:
        """Return True when a job may have what it needs from now until then, and no reservation is
        delayed."""
        for name, count in needs:
            budgets = self._by_name.get(name)
            if budgets is None or not budgets.has(count, until_s, arrival):
                return False
        return True

    def kept_for(self, needs: Resources) -> set[int]:
        """Return the arrival numbers of the jobs that have reserved some of these."""
        known = [self._by_name[name] for name, _ in needs if name in self._by_name]
        return {arrival for budgets in known for arrival in budgets.kept_for()}

    def earliest(self, needs: Resources, duration_s: float, from_s: float, arrival: int) -> float:
        """Return the first time, from one on, at which there is enough of one licence after the
        other, if limits hold: ask again from there until it stays. Infinite where there never
        is."""
        start_s = from_s
        for name, count in needs:
            budgets = self._by_name.get(name)
            if budgets is None:
                return inf
            start_s = budgets.earliest(count, duration_s, start_s, arrival)
        return start_s

    def shortages(self, needs: Resources, until_s: float, arrival: int) -> list[LicenceShortage]:
        """Return the licences that do not let a job start now, as they are now."""
        found = list[LicenceShortage]()
        for name, count in needs:
            for budget in self._by_name.get(name, ()):
                shortage = budget.shortage(count, until_s, arrival)
                if shortage is not None:
                    found.append(LicenceShortage(name, shortage, budget.drawn_by()))
        return found

    def hold(self, holder: int, release_s: float, needs: Resources) -> None:
        """Take what a job needs until a time; of what is not declared nothing is counted."""
        known = tuple([each for each in needs if each[0] in self._by_name])
        if not known:
            return
        self._held[holder] = known
        for name, count in known:
            self._by_name[name].hold(holder, release_s, count)

    def release(self, holder: int) -> None:
        """Give back what a job has."""
        for name, _ in self._held.pop(holder, ()):
            self._by_name[name].release(holder)

    def prolong(self, holder: int, release_s: float) -> None:
        """Expect a job to have its licences until another time."""
        for name, _ in self._held.get(holder, ()):
            self._by_name[name].prolong(holder, release_s)

    def reserve(self, arrival: int, start_s: float, duration_s: float, needs: Resources) -> bool:
        """Keep what a waiting job needs, from a time on for so long: see Budgets."""
        if needs:
            self._reserved[arrival] = needs
        has_moved = False
        for name, count in needs:
            has_moved |= self._by_name[name].reserve(arrival, start_s, duration_s, count)
        return has_moved

    def give_up(self, arrival: int) -> None:
        """Give up what was reserved for a job, if anything."""
        for name, _ in self._reserved.pop(arrival, ()):
            self._by_name[name].give_up(arrival)


NO_LICENCES: Final = Licences()

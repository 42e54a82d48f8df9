"""Who may be whose neighbour on a node, and what it costs: a policy that the scheduler asks."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from math import inf, isnan, nan
from typing import Final, Protocol

from shared.models.degradation import slowdown_of_shares
from shared.scheduling.capacity import Group

# A job on a node: its application and its cores there.
Member = tuple[str, int]

# Two applications, which may be one, in the order of their names.
Pair = tuple[str, str]

# Costs that are kept at most: as many applications as jobs would otherwise keep one a pair of them.
_MOST_COSTS: Final = 50_000


def pair_of_apps(one: str, other: str) -> Pair:
    """Both in the order of their names."""
    return (one, other) if one <= other else (other, one)


class Neighbours(Protocol):
    """Which jobs may run beside each other. Whom a policy accepts beside some it accepts beside
    fewer of them too."""

    def accepts_anyone(self, app: str) -> bool:
        """False where jobs of an application may have nobody beside them, whoever it is: then no
        group has to be asked about."""
        ...

    def cost(self, newcomer: Member, group: Group) -> float:
        """What it costs all if a job comes to those on a node; infinite where it must not."""
        ...

    def slowdown(self, one: Member, others: Group) -> float:
        """Predicted T_co / T_solo of one beside others; NaN without a prediction."""
        ...

    def refusal(self, newcomer: Member, groups: Iterable[Group]) -> str:
        """Why a newcomer may join none of these, in words."""
        ...


class Apart:
    """Nobody has a neighbour."""

    def accepts_anyone(self, app: str) -> bool:
        """Never."""
        return False

    def cost(self, newcomer: Member, group: Group) -> float:
        """Infinite beside anybody."""
        return inf if group else 0.0

    def slowdown(self, one: Member, others: Group) -> float:
        """Not predicted."""
        return nan if others else 1.0

    def refusal(self, newcomer: Member, groups: Iterable[Group]) -> str:
        """The rule."""
        return "nobody shares nodes"


@dataclass(frozen=True, slots=True, eq=False)
class Contention:
    """Neighbours contend for memory bandwidth: those of one add up as far as its slowdown goes.

    `gbps` holds the bandwidth of each application on a node used whole; a job draws the part of it
    that its cores are of `cores_per_node`. All slowdowns on a node have to be predicted and none
    may be above `max_slowdown`. `weights` is None while no degradation model is published: then
    nobody shares. Applications that are kept `apart`, pairs in the order of their names, are not
    each other's newcomers, whatever is predicted.
    """

    gbps: Mapping[str, float]
    peak_gbps: float
    cores_per_node: int
    weights: tuple[float, ...] | None
    max_slowdown: float
    apart: Set[Pair] = frozenset()
    _costs: dict[tuple[Member, Group], float] = field(default_factory=dict, init=False)

    def accepts_anyone(self, app: str) -> bool:
        """True where a slowdown can be predicted: a model is published and its signature known."""
        return self.weights is not None and app in self.gbps

    def cost(self, newcomer: Member, group: Group) -> float:
        """The sum of all slowdowns on the node, infinite where the rule refuses one of them."""
        if not group:
            return 0.0
        if not self.accepts_anyone(newcomer[0]):
            return inf
        key = newcomer, group
        if key not in self._costs:
            if len(self._costs) == _MOST_COSTS:
                self._costs.clear()
            apart = self._are_apart(newcomer, group)
            self._costs[key] = inf if apart else self._cost((*group, newcomer))
        return self._costs[key]

    def slowdown(self, one: Member, others: Group) -> float:
        """Predicted T_co / T_solo; NaN without a prediction."""
        if not others:
            return 1.0
        if self.weights is None:
            return nan
        beside = sum(map(self._share, others))
        return float(slowdown_of_shares(self.weights, self._share(one), beside))

    def refusal(self, newcomer: Member, groups: Iterable[Group]) -> str:
        """The mildest of the slowdowns that the rule refuses."""
        asked = list(groups)
        together = [group for group in asked if not self._are_apart(newcomer, group)]
        if asked and not together:
            return "beside each of those who run there a promised slowdown was exceeded"
        worst = [self._worst((*group, newcomer)) for group in together]
        mildest = min((slowdown for slowdown in worst if not isnan(slowdown)), default=None)
        if mildest is None:
            return "no slowdown is predicted for it and those who run there"
        return (
            f"neighbours would slow down {mildest:.2f} times or more, {self.max_slowdown} is most"
        )

    def _are_apart(self, newcomer: Member, group: Group) -> bool:
        if not self.apart:
            return False
        return any(pair_of_apps(newcomer[0], app) in self.apart for app, _ in group)

    def _share(self, member: Member) -> float:
        """Of the peak bandwidth of a node."""
        app, cores = member
        return self.gbps.get(app, nan) * cores / self.cores_per_node / self.peak_gbps

    def _cost(self, members: Group) -> float:
        found = self._slowdowns(members)
        refused = any(isnan(slowdown) or slowdown > self.max_slowdown for slowdown in found)
        return inf if refused else sum(found)

    def _worst(self, members: Group) -> float:
        found = self._slowdowns(members)
        return nan if any(map(isnan, found)) else max(found)

    def _slowdowns(self, members: Group) -> list[float]:
        return [
            self.slowdown(member, members[:place] + members[place + 1 :])
            for place, member in enumerate(members)
        ]

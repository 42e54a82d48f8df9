"""A policy of neighbours that the scheduler asks: which jobs may share a node, and at what cost."""

from array import array
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from math import inf, isnan, nan
from typing import Final, NamedTuple, Protocol

from coplace_client.millicores import PER_CORE
from coplace_client.signature import Signature
from shared.models.degradation import slowdown_of_shares
from shared.models.pair_trees import PairTrees, Reached, Side
from shared.scheduling.capacity import Group

# A job on a node: its application and its thousandths of a core there.
Member = tuple[str, int]

# Two applications, which may be one, in the order of their names.
Pair = tuple[str, str]

# Groups whose draws, or costs to themselves, are kept.
_MOST_GROUPS: Final = 50_000
# Pairs of jobs whose costs to each other are kept, 16 bytes each.
_MOST_PAIRS: Final = 1_000_000


def pair_of_apps(one: str, other: str) -> Pair:
    """Return both in the order of their names."""
    return (one, other) if one <= other else (other, one)


class Neighbours(Protocol):
    """Policy of the jobs that may run beside each other. A newcomer that it accepts beside some it
    accepts beside fewer of them too."""

    def accepts_anyone(self, app: str) -> bool:
        """Return False where jobs of an application may have no neighbour at all: then no group has
        to be asked about."""
        ...

    def cost(self, newcomer: Member, group: Group) -> float:
        """Return the cost to all if a job joins those on a node; infinite where it must not."""
        ...

    def slowdown(self, one: Member, others: Group) -> float:
        """Return the predicted T_co / T_solo of one beside others; NaN without a prediction."""
        ...

    def refusal(self, newcomer: Member, groups: Iterable[Group]) -> str:
        """Return why a newcomer may join none of these, in words."""
        ...


class Nobody:
    """Jobs have no neighbours."""

    def accepts_anyone(self, app: str) -> bool:
        """Return False."""
        return False

    def cost(self, newcomer: Member, group: Group) -> float:
        """Return infinity."""
        return inf

    def slowdown(self, one: Member, others: Group) -> float:
        """Return NaN: nothing is predicted of neighbours."""
        return nan

    def refusal(self, newcomer: Member, groups: Iterable[Group]) -> str:
        """Return that jobs are alone."""
        return "jobs are alone on their nodes"


class PairCosts:
    """Costs of jobs on nodes of one model to each other, by trees of pairs; NaN beside an
    application without a signature.

    Rows of a job beside all neighbours so far are kept, and what a group costs itself: the same
    groups are asked about for each application that waits.
    """

    _leaves: Reached

    def __init__(
        self,
        trees: PairTrees,
        signatures: Mapping[str, Signature],
        millicores_per_node: int,
        peak_gbps: float,
    ) -> None:
        self.version = trees.version
        self._trees, self._signatures = trees, signatures
        self._millicores_per_node, self._peak_gbps = millicores_per_node, peak_gbps
        self._forget()

    def equals(self, other: "PairCosts | None") -> bool:
        """Return True where all costs are the same on equal nodes: those of one version of trees
        and of equal signatures."""
        if other is None or self._trees is not other._trees:
            return False
        return self._signatures == other._signatures

    def slowdown(self, one: Member, others: Group) -> float:
        """Return the predicted T_co / T_solo."""
        self._make_room()
        return self._slowdown(one, others)

    def _slowdown(self, one: Member, others: Group) -> float:
        row = self._row(one, others)
        if row is None:
            return nan
        return 1.0 + sum(row.suffers[self._places[other]] for other in others)

    def slowdowns(self, group: Group, newcomer: Member) -> list[float]:
        """Return the slowdowns of the jobs on a node, in their order, and of a newcomer."""
        self._make_room()
        together, row = self._together(group), self._row(newcomer, group)
        if row is None or together is None:
            return [nan] * (len(group) + 1)
        found = [own + row.presses[at] for at, own in together]
        return [*found, 1.0 + sum(row.suffers[at] for at, _ in together)]

    def cost(self, group: Group, newcomer: Member, most: float) -> float:
        """Return the sum of the slowdowns; infinite where one is not known or above `most`."""
        self._make_room()
        together, row = self._together(group), self._row(newcomer, group)
        if row is None or together is None:
            return inf
        mine, total = 1.0, 0.0
        for at, own in together:
            slowdown = own + row.presses[at]
            if slowdown > most:
                return inf
            mine += row.suffers[at]
            total += slowdown
        return inf if mine > most else total + mine

    def _together(self, group: Group) -> list[tuple[int, float]] | None:
        """Return the places of the jobs on a node, and their slowdowns as it is; None where one is
        not known."""
        if group not in self._groups:
            if len(self._groups) == _MOST_GROUPS:
                self._groups.clear()
            found = [
                self._slowdown(member, group[:place] + group[place + 1 :])
                for place, member in enumerate(group)
            ]
            is_known = self._met(group) and not any(map(isnan, found))
            places = [self._places[member] for member in group] if is_known else []
            self._groups[group] = list(zip(places, found, strict=True)) if is_known else None
        return self._groups[group]

    def _row(self, one: Member, others: Group) -> "_Row | None":
        """Return the row of one beside all neighbours so far, these among them; None where one is
        not known."""
        if not self._groups.get(others) and not self._met(others):
            return None
        row = self._rows.get(one)
        if row is None:
            side = self._side(one)
            if side is None:
                return None
            row = self._rows[one] = _Row(side, array("d"), array("d"))
        count = len(row.suffers)
        if count < len(self._sides):
            met = self._reached()
            missing = Reached(met.own[count:], met.other[count:])
            suffers, presses = self._trees.among(row.side, missing)
            row.suffers.extend(suffers)
            row.presses.extend(presses)
        return row

    def _reached(self) -> Reached:
        """Return the leaves of all neighbours so far, by place."""
        if len(self._leaves.own) < len(self._sides):
            self._leaves = self._trees.reached(self._sides)
        return self._leaves

    def _met(self, others: Group) -> bool:
        """Give neighbours places; False where one has no signature."""
        if all(other in self._places for other in others):
            return True
        for other in others:
            if other in self._places:
                continue
            side = self._side(other)
            if side is None:
                return False
            self._places[other] = len(self._sides)
            self._sides.append(side)
        return True

    def _side(self, member: Member) -> Side | None:
        app, millicores = member
        signature = self._signatures.get(app)
        if signature is None:
            return None
        share = millicores / self._millicores_per_node
        return Side.from_signature(signature, share, self._peak_gbps)

    def _make_room(self) -> None:
        if len(self._rows) * len(self._places) > _MOST_PAIRS:
            self._forget()

    def _forget(self) -> None:
        self._places: dict[Member, int] = {}
        self._sides: list[Side] = []
        self._rows: dict[Member, _Row] = {}
        self._groups: dict[Group, list[tuple[int, float]] | None] = {}
        self._leaves = self._trees.reached([])


class _Row(NamedTuple):
    """The slowdown of one beside each neighbour by place, and its cost to them."""

    side: Side
    suffers: "array[float]"
    presses: "array[float]"


class _Drawn(NamedTuple):
    """Shares of the peak bandwidth that jobs on a node draw: of each what it and what the others
    do, and of all."""

    each: list[tuple[float, float]]
    together: float


@dataclass(frozen=True, slots=True, eq=False)
class Contention:
    """Contention of neighbours for memory bandwidth: those of one add up as far as its slowdown
    goes.

    `gbps` has the bandwidth of each application on a node used whole; a job draws the part of it
    that its cores are of a node's. All slowdowns on a node have to be predicted and none may be
    above `max_slowdown`. `weights` is None while no degradation model is published: then no jobs
    share. Applications that are `isolated` from each other, pairs in the order of their names,
    are not each other's newcomers, whatever is predicted. Where a node's resource manager shares it
    anyway (`is_open`) those of which nothing is predicted are taken not to slow each other down.

    Where `pairs` are known, they give the costs of neighbours instead of the weights.
    """

    gbps: Mapping[str, float]
    peak_gbps: float
    millicores_per_node: int
    weights: tuple[float, ...] | None
    max_slowdown: float
    isolated: Set[Pair] = frozenset()
    pairs: PairCosts | None = None
    is_open: bool = False
    _drawn_by: dict[Group, "_Drawn"] = field(default_factory=dict, init=False)

    def accepts_anyone(self, app: str) -> bool:
        """Return True where it may have neighbours at all."""
        return self.is_open or self._is_predicted(app)

    def _is_predicted(self, app: str) -> bool:
        """Whether a slowdown can be: a model is published and its signature known."""
        return (self.weights is not None or self.pairs is not None) and app in self.gbps

    def equals(self, other: "Contention") -> bool:
        """Return True where all answers are the same, since they follow from equal things."""
        pairs = self.pairs is None if other.pairs is None else other.pairs.equals(self.pairs)
        return pairs and self._follows_from() == other._follows_from()

    def _follows_from(self) -> tuple[object, ...]:
        node = self.peak_gbps, self.millicores_per_node, self.is_open
        return node, self.weights, self.max_slowdown, self.isolated, self.gbps

    def predictor(self, app: str) -> str:
        """Return the predictor of an application's slowdowns: trees of pairs, the weights while
        none are in force, or nothing without a signature."""
        if not self._is_predicted(app):
            return "nothing"
        return "weights" if self.pairs is None else "trees"

    def cost(self, newcomer: Member, group: Group) -> float:
        """Return the sum of all slowdowns on the node, infinite where the rule refuses one of
        them."""
        if not group:
            return 0.0
        app, _ = newcomer
        if not self._is_predicted(app):
            is_accepted = self.is_open and not self._are_isolated(newcomer, group)
            return float(len(group) + 1) if is_accepted else inf
        if self.is_open and self._has_unpredicted(group):
            return self._cost_beside_unpredicted(newcomer, group)
        if self.pairs is not None:
            # What costs each other is kept by pairs: as much a group as looking it up.
            is_isolated = self._are_isolated(newcomer, group)
            return inf if is_isolated else self.pairs.cost(group, newcomer, self.max_slowdown)
        if self.weights is None or self._are_isolated(newcomer, group):
            return inf
        return self._cost(self.weights, self._share(newcomer), self._drawn(group))

    def slowdown(self, one: Member, others: Group) -> float:
        """Return the predicted T_co / T_solo; NaN without a prediction."""
        if not others:
            return 1.0
        if self.pairs is not None:
            return self.pairs.slowdown(one, others)
        if self.weights is None:
            return nan
        beside = sum(map(self._share, others))
        return float(slowdown_of_shares(self.weights, self._share(one), beside))

    def refusal(self, newcomer: Member, groups: Iterable[Group]) -> str:
        """Return the mildest of the slowdowns that the rule refuses."""
        asked = list(groups)
        together = [group for group in asked if not self._are_isolated(newcomer, group)]
        if asked and not together:
            return "a promised slowdown was exceeded beside each job that runs there"
        worst = [self._worst((*group, newcomer)) for group in together]
        mildest = min((slowdown for slowdown in worst if not isnan(slowdown)), default=None)
        if mildest is None:
            return "no slowdown is predicted for it and the jobs that run there"
        return (
            f"neighbours would slow down {mildest:.2f} times or more, {self.max_slowdown} is most"
        )

    def _cost_beside_unpredicted(self, newcomer: Member, group: Group) -> float:
        """Return the cost beside members of whom some are predicted, which decide as alone."""
        if self._are_isolated(newcomer, group):
            return inf
        known = tuple(member for member in group if self._is_predicted(member[0]))
        others = len(group) - len(known)
        return others + (self.cost(newcomer, known) if known else 1.0)

    def _has_unpredicted(self, group: Group) -> bool:
        return not all(self._is_predicted(app) for app, _ in group)

    def _are_isolated(self, newcomer: Member, group: Group) -> bool:
        if not self.isolated:
            return False
        its_app, _ = newcomer
        return any(pair_of_apps(its_app, app) in self.isolated for app, _ in group)

    def _share(self, member: Member) -> float:
        """Return a job's share of the peak bandwidth of a node."""
        app, millicores = member
        cores, of_node = millicores / PER_CORE, self.millicores_per_node / PER_CORE
        return self.gbps.get(app, nan) * cores / of_node / self.peak_gbps

    def _drawn(self, group: Group) -> "_Drawn":
        """Return the shares of a group, which are kept: the same groups are asked about for each
        application that waits."""
        found = self._drawn_by.get(group)
        if found is None:
            if len(self._drawn_by) == _MOST_GROUPS:
                self._drawn_by.clear()
            shares = [self._share(member) for member in group]
            beside = [sum(shares[:at] + shares[at + 1 :]) for at in range(len(shares))]
            found = _Drawn(list(zip(shares, beside, strict=True)), sum(shares))
            self._drawn_by[group] = found
        return found

    def _cost(self, weights: tuple[float, ...], share: float, drawn: "_Drawn") -> float:
        """Return the sum of all slowdowns once a newcomer draws its share; NaN is no prediction."""
        total = 0.0
        for own, beside in drawn.each:
            slowdown = slowdown_of_shares(weights, own, beside + share)
            if not slowdown <= self.max_slowdown:
                return inf
            total += slowdown
        mine = slowdown_of_shares(weights, share, drawn.together)
        return total + mine if mine <= self.max_slowdown else inf

    def _worst(self, members: Group) -> float:
        found = self._slowdowns(members)
        return nan if any(map(isnan, found)) else max(found)

    def _slowdowns(self, members: Group) -> list[float]:
        if self.pairs is not None:
            return self.pairs.slowdowns(members[:-1], members[-1])
        if self.weights is None:
            return [nan] * len(members)
        shares = [self._share(member) for member in members]
        return [
            slowdown_of_shares(self.weights, own, sum(shares[:place] + shares[place + 1 :]))
            for place, own in enumerate(shares)
        ]

"""How much one job slows another down on a node, by trees over what is known of both alone.

Each split asks one of the two, so that a leaf is a set of jobs that suffer times a set of jobs that
press them. Of each job it is kept which leaves it can reach in either role; a pair is in the leaves
that both can reach, one a tree, and no row of a pair is ever built.

What several neighbours cost adds up, each as it would alone: so that whom a rule accepts beside
some it accepts beside fewer of them too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coplace_client.errors import RejectedError
from coplace_client.signature import Signature
from shared.models.forest import LEAF, Forest

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Leaves are whole numbers of it and at most MOST_EXCESS, which 24 bits hold; trees are a power of
# two. So sums over trees and neighbours are exact in whatever order a processor adds.
UNIT: Final = 2.0**-20
MOST_EXCESS: Final = 15.0
MOST_TREES: Final = 64
MOST_DEPTH: Final = 16
# What is kept of the leaves of jobs, a byte a leaf and role; beyond it, it is computed again.
_MOST_KEPT_BYTES: Final = 32 * 2**20


class Side(NamedTuple):
    """One job on a node, by its application's signature at the highest P-state: what it draws of
    the node's peak bandwidth, its part of the cores, cycles per instruction, and what a node used
    whole draws, W."""

    bandwidth_share: float
    core_share: float
    cpi: float
    power_w: float

    @classmethod
    def from_signature(cls, signature: Signature, core_share: float, peak_gbps: float) -> "Side":
        """Return a job on this share of a node's cores, which draws the same share of the
        bandwidth."""
        bandwidth_share = signature.mem_gbps * core_share / peak_gbps
        return cls(bandwidth_share, core_share, signature.cpi, signature.power_w)


# Of a row: those of the job that is slowed down, then those of its neighbour.
COLUMNS: Final = tuple(f"{who} {name}" for who in ("own", "other") for name in Side._fields)
# 1 where more of it never slows down less: more cores of either, and what they draw.
RISING: Final = tuple(int(name.endswith("_share")) for name in COLUMNS)
# Of what columns and values mean: trees of another origin would be asked something else.
PAIRS_ORIGIN: Final = sha256(repr((COLUMNS, RISING, UNIT)).encode()).digest()


def row_of_pair(own: Side, other: Side) -> tuple[float, ...]:
    """Return COLUMNS of a job beside another one: what trees are grown of."""
    return (*own, *other)


class _Level(NamedTuple):
    """Nodes of all trees at one depth that split, and their children: all by number."""

    node: Ints
    left: Ints
    right: Ints
    feature: Ints
    threshold: Floats


class Reached(NamedTuple):
    """Leaves that a job can reach, as the one that is slowed down and as the neighbour; or those of
    several jobs, a row each."""

    own: Mask
    other: Mask


@dataclass(frozen=True, slots=True, eq=False)
class PairTrees:
    """An immutable version. Raises RejectedError for trees whose sums would not be exact."""

    version: str
    forest: Forest
    _levels: tuple[_Level, ...] = field(init=False, repr=False)
    _leaves: Ints = field(init=False, repr=False)
    _values: Floats = field(init=False, repr=False)
    _kept: dict[Side, Reached] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        trees, values = len(self.forest.feature), self.forest.value
        if trees > MOST_TREES or trees & (trees - 1):
            raise RejectedError("trees.sizes", f"must be a power of two, at most {MOST_TREES}")
        scaled = values / UNIT
        if (np.rint(scaled) != scaled).any() or (values < 0).any() or (values > MOST_EXCESS).any():
            problem = f"must be multiples of {UNIT!r} from 0 to {MOST_EXCESS:g}"
            raise RejectedError("trees.value", problem)
        levels, leaves = _levels_of(self.forest)
        object.__setattr__(self, "_levels", levels)
        object.__setattr__(self, "_leaves", leaves)
        object.__setattr__(self, "_values", values.ravel()[leaves] / trees)

    def excess(self, own: Side, other: Side) -> float:
        """Return T_co / T_alone - 1 of one beside another."""
        there = self._reached(own).own & self._reached(other).other
        return float(self._values[there].sum())

    def reached(self, sides: Sequence[Side]) -> Reached:
        """Return the leaves of several jobs."""
        shape = len(sides), len(self._leaves)
        found = [self._reached(side) for side in sides]
        own, other = ([each[role] for each in found] for role in (0, 1))
        return Reached(*(np.array(of, dtype=np.bool_).reshape(shape) for of in (own, other)))

    def among(self, one: Side, others: Reached) -> tuple[list[float], list[float]]:
        """Return the excess of one beside each of the others, and of each of the others beside
        it."""
        me = self._reached(one)
        return self._summed(me.own, others.other), self._summed(me.other, others.own)

    def _summed(self, mine: Mask, theirs: Mask) -> list[float]:
        at = np.flatnonzero(mine)
        there = theirs.take(at, axis=1)
        found: list[float] = (there * self._values[at]).sum(axis=1).tolist()
        return found

    def _reached(self, side: Side) -> Reached:
        found = self._kept.get(side)
        if found is None:
            if 2 * len(self._leaves) * len(self._kept) > _MOST_KEPT_BYTES:
                self._kept.clear()
            found = self._kept[side] = self._walked(side)
        return found

    def _walked(self, side: Side) -> Reached:
        """Down all trees at once; splits that ask the other job are followed both ways."""
        # Rounded to 32 bits, as scikit-learn does before it compares.
        asked = np.array(side, dtype=np.float32).astype(np.float64)
        nobody = np.full(len(side), np.nan)
        rows = np.array([[*asked, *nobody], [*nobody, *asked]])
        reached = np.zeros((2, self.forest.feature.size), dtype=np.bool_)
        reached[:, _roots(self.forest)] = True
        for level in self._levels:
            value, here = rows[:, level.feature], reached[:, level.node]
            # Not a number is neither: who is not asked goes both ways.
            reached[:, level.left] = here & ~(value > level.threshold)
            reached[:, level.right] = here & ~(value <= level.threshold)
        own, other = reached[:, self._leaves]
        return Reached(own, other)


def _roots(forest: Forest) -> Ints:
    trees, width = forest.feature.shape
    return np.asarray(np.arange(trees) * width, dtype=np.int64)


def _levels_of(forest: Forest) -> tuple[tuple[_Level, ...], Ints]:
    """Return nodes that split by depth, and the leaves; a node is tree x width + its number
    there."""
    trees, width = forest.feature.shape
    first = np.repeat(np.arange(trees) * width, width)
    feature, threshold = forest.feature.ravel(), forest.threshold.ravel()
    left, right = first + forest.left.ravel(), first + forest.right.ravel()
    levels: list[_Level] = []
    leaves: list[Ints] = []
    here = _roots(forest)
    is_known = np.zeros(feature.size, dtype=np.bool_)
    while here.size:
        is_new = len(np.unique(here)) == len(here) and not is_known[here].any()
        if not is_new or len(levels) > MOST_DEPTH:
            problem = f"must be trees, of {MOST_DEPTH} splits one below the other at most"
            raise RejectedError("trees", problem)
        is_known[here] = True
        splits = here[feature[here] != LEAF]
        leaves.append(here[feature[here] == LEAF])
        level = _Level(splits, left[splits], right[splits], feature[splits], threshold[splits])
        levels.append(level)
        here = np.concatenate([level.left, level.right])
    return tuple(levels), np.sort(np.concatenate(leaves))

"""The state of a cluster during a scheduling pass: allocated, free and reserved nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(slots=True)
class NodeSet:
    """Nodes allocated to one job until `release_s`; infinite: for ever. `holder` is its arrival
    number, or what a scheduler calls it; `draw_mw` counts where there is a cap."""

    nodes: int
    release_s: float
    holder: int = -1
    draw_mw: int = 0


@dataclass(slots=True)
class Load:
    """The nodes of a cluster and their holders when a pass begins."""

    nodes: int
    free: int
    node_sets: list[NodeSet] = field(default_factory=list)


class Reservation(NamedTuple):
    """Nodes reserved for the first blocked entry of a cluster at its shadow time."""

    arrival: int
    nodes: int
    start_s: float


class Soonest:
    """When an entry fits, how many units fit then, and the state of each class of nodes then where
    nodes differ; `way` is the number of the place where that is, of those where it may be, and
    `kind` that of its kind as it may be placed then. `fits` is False where it does not when all
    jobs have left."""

    def __init__(
        self, start_s: float, units: int, states: Sequence[int] = (), *, fits: bool = True
    ) -> None:
        self.start_s, self.units, self.states, self.fits = start_s, units, states, fits
        self.way, self.kind = 0, -1


class ClusterState(NamedTuple):
    """A cluster after the entry `order` was served.

    `extra` nodes stay free at the shadow time of the reservation; 0 while there is none.
    """

    order: int
    free: int
    extra: int = 0
    reservation: Reservation | None = None

    def in_time(self, end_s: float) -> bool:
        """Return True when a job that ends then frees its nodes before they are reserved."""
        return self.reservation is None or end_s <= self.reservation.start_s

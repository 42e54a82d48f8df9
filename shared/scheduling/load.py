"""How a cluster stands during a scheduling pass: who holds nodes, what is free and promised."""

from dataclasses import dataclass, field
from sys import maxsize
from typing import NamedTuple


@dataclass(slots=True)
class NodeSet:
    """Nodes that one job, or a pair, holds until `release_s`: the later of the expected ends.

    `host` is the id of a shareable job that runs there alone, `app` its application's number.
    It can be joined from tick `since` of the pass to before tick `until`. `holder` is the arrival
    number of the job that opened it. `draw_mw` counts where there is a cap.
    """

    nodes: int
    release_s: float
    host: str = ""
    app: int = -1
    since: int = 0
    until: int = maxsize
    holder: int = -1
    draw_mw: int = 0

    @property
    def is_alone(self) -> bool:
        """True while it can be joined."""
        return bool(self.host) and self.until == maxsize


@dataclass(slots=True)
class Load:
    """What a cluster has and who holds it when a pass begins; the pass changes the node sets."""

    nodes: int
    free: int
    node_sets: list[NodeSet] = field(default_factory=list)


class Reservation(NamedTuple):
    """Nodes promised to the first blocked entry of a cluster at its shadow time."""

    arrival: int
    nodes: int
    start_s: float


class Standing(NamedTuple):
    """A cluster after the entry `order` was served.

    `extra` nodes stay free at the shadow time of the reservation; 0 while there is none.
    """

    order: int
    tick: int
    free: int
    extra: int = 0
    reservation: Reservation | None = None

    def in_time(self, end_s: float) -> bool:
        """True when what ends then gives its nodes back before they are promised."""
        return self.reservation is None or end_s <= self.reservation.start_s

    def counts_on(self, node_set: NodeSet) -> bool:
        """True when the reservation needs these nodes to be released as expected."""
        return (
            self.reservation is not None
            and node_set.release_s <= self.reservation.start_s
            and node_set.nodes > self.extra
        )

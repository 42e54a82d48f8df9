"""Parts of nodes under EASY backfill, checked as plainly as the rules are said: nodes as lists of
what they hold, time as a list of instants. Slow on purpose, and independent of what it checks.
"""

from dataclasses import dataclass, field
from itertools import combinations

from shared.scheduling.problem import Kind


@dataclass
class Stay:
    """A job on nodes: units by node, until when."""

    kind: Kind
    units: dict[int, int]
    release_s: float


@dataclass
class PlainNodes:
    """Nodes with what they have of each resource, and who is on them."""

    amounts: list[tuple[int, ...]]
    max_cost: float = float("inf")
    costs: dict[tuple[str, str], float] = field(default_factory=dict)
    stays: list[Stay] = field(default_factory=list)

    def beside(self, one: str, other: str) -> bool:
        """Whether two applications accept each other."""
        return self.costs.get((min(one, other), max(one, other)), 1.0) <= self.max_cost

    def on(self, node: int, at_s: float) -> list[Stay]:
        """Who is there at a time if all end at their limits; what is overdue may end at once."""
        return [s for s in self.stays if s.units.get(node) and s.release_s > at_s]

    def fits(self, kind: Kind, node: int, count: int, stays: list[Stay]) -> bool:
        """Whether so many units fit onto one node beside these."""
        if kind.shape.most_per_node and count > kind.shape.most_per_node:
            return False
        if stays and (kind.shape.exclusive or any(s.kind.shape.exclusive for s in stays)):
            return False
        if not all(self.beside(kind.app, s.kind.app) for s in stays):
            return False
        used = [
            sum(s.kind.shape.needs[r] * s.units[node] for s in stays) + kind.shape.needs[r] * count
            for r in range(len(self.amounts[node]))
        ]
        return all(u <= a for u, a in zip(used, self.amounts[node], strict=True))

    def room(self, kind: Kind, at_s: float, extra: list[Stay] | None = None) -> dict[int, int]:
        """How many units fit on each node at a time, beside what is there and some more."""
        found = {}
        for node in range(len(self.amounts)):
            stays = self.on(node, at_s) + [s for s in extra or [] if s.units.get(node)]
            count = 0
            while count < 64 and self.fits(kind, node, count + 1, stays):
                count += 1
            found[node] = count
        return found

    def earliest_s(self, kind: Kind, count: int, now_s: float) -> float:
        """When so many units fit at the first."""
        times = sorted({now_s, *(s.release_s for s in self.stays if s.release_s > now_s)})
        return next(t for t in times if sum(self.room(kind, t).values()) >= count)

    def require_sound(self, at_s: float) -> None:
        """No node holds more than it has, nobody sits beside one who does not want it."""
        for node in range(len(self.amounts)):
            stays = [s for s in self.stays if s.units.get(node)]
            for stay in stays:
                others = [s for s in stays if s is not stay]
                assert self.fits(stay.kind, node, stay.units[node], others), (node, stays)

    def harmless_start(
        self,
        kind: Kind,
        count: int,
        end_s: float,
        now_s: float,
        reservation: tuple[Kind, int, float],
    ) -> bool:
        """Whether some choice of nodes, one unit each, lets a job start and keeps the
        reservation."""
        reserved, reserved_count, start_s = reservation
        room = [node for node, units in self.room(kind, now_s).items() if units]
        for nodes in combinations(room, count):
            stay = Stay(kind, dict.fromkeys(nodes, 1), end_s)
            extra = [stay] if end_s > start_s else []
            if sum(self.room(reserved, start_s, extra).values()) >= reserved_count:
                return True
        return False
